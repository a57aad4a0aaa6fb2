"""Cut the heads with the smallest weights (Han et al. 2015)."""

from __future__ import annotations

from engine.surgery.heads.ranking import best
from engine.tracks.language_models.selection.base import Ballot, SelectionMethod


class Magnitude(SelectionMethod):
    name = "magnitude"
    needs = ("magnitude",)

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        return best(ballot.scores["magnitude"], ballot.k, highest=False)

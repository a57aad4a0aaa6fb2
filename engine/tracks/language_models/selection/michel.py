"""Cut the heads the loss is least sensitive to (Michel et al. 2019)."""

from __future__ import annotations

from engine.surgery.heads.ranking import best
from engine.tracks.language_models.selection.base import Ballot, SelectionMethod


class Gradient(SelectionMethod):
    name = "gradient"
    needs = ("gradient",)

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        return best(ballot.scores["gradient"], ballot.k, highest=False)

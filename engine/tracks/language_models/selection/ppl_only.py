"""Cut the heads perplexity misses least, whoever pays (the paper's "performance only" baseline)."""

from __future__ import annotations

from engine.surgery.heads.ranking import best
from engine.tracks.language_models.selection.base import Ballot, SelectionMethod


class PplOnly(SelectionMethod):
    name = "ppl_only"
    needs = ("z_ppl",)

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        return best(ballot.scores["z_ppl"], ballot.k, highest=True)

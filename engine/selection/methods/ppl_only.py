"""Cut the heads perplexity misses least, whoever pays (the paper's "performance only" baseline)."""

from __future__ import annotations

from engine.selection.base import Ballot, SelectionMethod
from engine.selection.ranking import best


class PplOnly(SelectionMethod):
    name = "ppl_only"
    needs = ("z_ppl",)

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        return best(ballot.scores["z_ppl"], ballot.k, highest=True)

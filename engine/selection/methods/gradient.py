"""Cut the heads the loss is least sensitive to (Michel et al. 2019)."""

from __future__ import annotations

from engine.selection.base import Ballot, SelectionMethod
from engine.selection.ranking import best


class Gradient(SelectionMethod):
    name = "gradient"
    needs = ("gradient",)

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        return best(ballot.scores["gradient"], ballot.k, highest=False)

"""Cut the heads with the highest z_bias, whatever the model loses (the paper's "fairness only" baseline)."""

from __future__ import annotations

from engine.surgery.heads.ranking import best
from engine.tracks.language_models.selection.base import Ballot, SelectionMethod


class BiasOnly(SelectionMethod):
    name = "bias_only"
    needs = ("z_bias",)
    per_axis = True

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        return best(ballot.scores["z_bias"], ballot.k, highest=True)

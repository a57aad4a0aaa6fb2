"""FASP: protect the heads critical for perplexity, cut the most harmful of the rest (Zayed 2024, Algorithm 1)."""

from __future__ import annotations

from engine.surgery.heads.ranking import best
from engine.tracks.language_models.selection.base import Ballot, SelectionMethod


class Fasp(SelectionMethod):
    name = "fasp"
    needs = ("z_bias", "z_ppl")
    per_axis = True
    uses_gamma = True

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        return best(ballot.scores["z_bias"], ballot.k, highest=True, excluded=ballot.critical)

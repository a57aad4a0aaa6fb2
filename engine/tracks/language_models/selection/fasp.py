"""FASP: protect the heads critical for perplexity, cut the most harmful others (Zayed et al. 2024, Algorithm 1)."""

from __future__ import annotations

from engine.surgery.heads.ranking import best
from engine.tracks.language_models.selection.base import Ballot, SelectionMethod


class Fasp(SelectionMethod):
    """FASP Algorithm 1.

    1. Score every head h: z_bias(h) = bias on − bias off, z_ppl(h) = ppl on − ppl off.
    2. Critical: the int(γ·N_h) heads with the lowest z_ppl. They are never cut.
    3. Cut the int(α·N_h) heads with the highest z_bias among the others.
    """

    name = "fasp"
    needs = ("z_bias", "z_ppl")
    per_axis = True
    uses_gamma = True

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        return best(ballot.scores["z_bias"], ballot.k, highest=True, excluded=ballot.critical)

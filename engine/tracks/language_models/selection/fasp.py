"""FASP: protect the heads critical for perplexity, cut the most harmful others (Zayed et al. 2024,
Algorithm 1)."""

from __future__ import annotations

from engine.surgery.heads.ranking import best
from engine.tracks.language_models.selection.base import Ballot, SelectionMethod


class Fasp(SelectionMethod):
    """FASP Algorithm 1.

    1. z_ppl(h) of every head (FASP Eq. 3).
    2. Critical heads H': the int(γ·N_h) with the lowest z_ppl (`critical_heads`). They are never cut.
    3. z_bias(S, h) of the others (FASP Eq. 2).
    4. Cut the int(α·N_h) of the others with the highest z_bias.
    """

    name = "fasp"
    needs = ("z_bias", "z_ppl")
    per_axis = True
    uses_gamma = True
    breaks_ties = True

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        return best(ballot.scores["z_bias"], ballot.k, highest=True, excluded=ballot.critical)

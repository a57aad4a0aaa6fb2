"""Cut heads at random among those not critical for perplexity.

The control the paper lacks: where it does as well as FASP, it is the protection (γ) that helps, not the bias score.
"""

from __future__ import annotations

from engine.core.seeds import rng
from engine.tracks.language_models.selection.base import Ballot, SelectionMethod


class RandomNoncritical(SelectionMethod):
    name = "random_noncritical"
    needs = ("z_ppl",)
    uses_gamma = True
    uses_seed = True

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        critical = set(ballot.critical)
        order = [
            unit for unit in rng("random heads", ballot.seed).permutation(ballot.total).tolist() if unit not in critical
        ]
        if len(order) < ballot.k:
            raise ValueError(f"{ballot.k} heads asked for, {len(order)} may be cut")
        return tuple(sorted(order[: ballot.k]))

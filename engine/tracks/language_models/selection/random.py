"""Cut heads at random: what any method must beat."""

from __future__ import annotations

from engine.core.seeds import rng
from engine.tracks.language_models.selection.base import Ballot, SelectionMethod


class Random(SelectionMethod):
    name = "random"
    uses_seed = True

    def select(self, ballot: Ballot) -> tuple[int, ...]:
        order = rng("random heads", ballot.seed).permutation(ballot.total)
        return tuple(sorted(order[: ballot.k].tolist()))

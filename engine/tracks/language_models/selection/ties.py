"""Heads that a tie decides: equal scores on both sides of a boundary, and the two rules for
them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from engine.core.levels import exact_count
from engine.tracks.language_models.selection.critical import critical_heads

RULES = ("index", "published")
"""How tied heads at the boundary of γ are settled: the lower index is protected, or, as in the
published code, none."""


@dataclass(frozen=True)
class Ties:
    """Heads protected, and heads cut, only because the lower index wins a tie."""

    protected: int
    cut: int


def tied_at_boundary(values: np.ndarray, taken: Iterable[int], allowed: Iterable[int]) -> int:
    """How many of the units `taken` have a value that one of the others among `allowed` has too.
    values [units]."""
    taken = set(taken)
    left = {float(values[unit]) for unit in allowed if unit not in taken}
    return sum(float(values[unit]) in left for unit in taken)


def fasp_ties(
    scores: Mapping[str, np.ndarray], critical: Iterable[int], cut: Iterable[int]
) -> Ties:
    """Ties of FASP's two steps; scores: z_ppl and z_bias, [units] each."""
    every, critical = range(len(scores["z_ppl"])), set(critical)
    free = [unit for unit in every if unit not in critical]
    return Ties(
        tied_at_boundary(scores["z_ppl"], critical, every),
        tied_at_boundary(scores["z_bias"], cut, free),
    )


def protected(z_ppl: np.ndarray, gamma: float, rule: str = "index") -> tuple[int, ...]:
    """Critical heads by one of RULES, ascending; z_ppl [units].

    Published: those strictly below the (int(γ·N) + 1)-th lowest value, so that heads tied there are
    left unprotected.
    """
    chosen = critical_heads(z_ppl, gamma)
    k = exact_count(gamma, len(z_ppl))
    if rule == "index" or k >= len(z_ppl):
        return chosen
    return tuple(np.flatnonzero(z_ppl < np.sort(z_ppl)[k]).tolist())

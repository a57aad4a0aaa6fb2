"""How head scores of different axes (or methods, or seeds) agree: correlation, shared top heads,
chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import binom, hypergeom

from engine.core.errors import RequestError, unknown
from engine.core.levels import exact_count

KINDS = ("pearson", "spearman")
MIN_UNITS = 3


@dataclass(frozen=True)
class Overlap:
    """Units that two sets share, how many chance alone would give, and P(that many or more by
    chance)."""

    shared: int
    expected: float
    p: float


def correlation(scores: pd.DataFrame, kind: str = "pearson") -> pd.DataFrame:
    """Correlation matrix [columns, columns] of a wide table (rows = units), over the units that
    both columns have.

    NaN where fewer than MIN_UNITS units are shared or a column is constant. Raises RequestError for
    another kind.
    """
    if kind not in KINDS:
        raise RequestError(unknown("correlation", kind, KINDS))
    return scores.corr(method=kind, min_periods=MIN_UNITS)


def top_heads(scores: pd.DataFrame, share: float = 0.2) -> dict[str, list[int]]:
    """Per column the int(share * units) units with the highest score, best first; ties go to the
    lower unit.

    scores: one row per unit, the unit as index; one column per axis, method or seed.
    """
    size = exact_count(share, len(scores))
    ordered = scores.sort_index()
    return {
        str(name): [
            int(unit)
            for unit in (
                ordered[name].dropna().sort_values(ascending=False, kind="stable").index[:size]
            )
        ]
        for name in ordered.columns
    }


def in_axes(tops: Mapping[str, Sequence[int]]) -> dict[int, int]:
    """In how many of the sets each unit is: most first, then by unit."""
    counts: dict[int, int] = {}
    for units in tops.values():
        for unit in units:
            counts[unit] = counts.get(unit, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def overlap(first: Sequence[int], second: Sequence[int], n_units: int) -> Overlap:
    """Overlap of two sets drawn from n_units units, against the hypergeometric chance."""
    a, b = set(first), set(second)
    shared = len(a & b)
    p = float(hypergeom.sf(shared - 1, n_units, len(a), len(b)))
    return Overlap(shared, len(a) * len(b) / n_units, p)


def expected_in_axes(size: int, n_units: int, n_axes: int) -> np.ndarray:
    """Expected number of units that lie in exactly 0, 1, …, n_axes independent sets of `size`:
    [n_axes + 1] float64."""
    return n_units * binom.pmf(np.arange(n_axes + 1), n_axes, size / n_units)

"""How far first order is off, learned from heads that have both: its slope, and what is left around
it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd
from scipy.stats import norm

from engine.tracks.language_models import pilot
from engine.tracks.language_models.importance_weights import Effects

FEWEST = 4
"""Heads with both values below which nothing is learned."""
REACH = 1.959963984540054


@dataclass(frozen=True)
class FirstOrderError:
    """measured ≈ slope × first order, give or take √(spread² + (relative × first order)²); `heads`
    that have both. NaN where these are too few to learn from."""

    slope: float
    spread: float
    relative: float
    heads: int

    def of(self, values: np.ndarray) -> np.ndarray:
        """Standard error around the slope at first-order values [units], in units of the score."""
        return np.hypot(self.spread, self.relative * values)

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


def learned(first: np.ndarray, measured: np.ndarray) -> FirstOrderError:
    """From first-order and measured values of the same heads, [heads] each.

    The slope is that of least squares through zero. The spread is the root mean square residual of
    the half of the heads with the smaller first-order values, `relative` that of the residual over
    the value in the other half.
    """
    if len(first) < FEWEST:
        return FirstOrderError(np.nan, np.nan, np.nan, len(first))
    slope = float(first @ measured / max(first @ first, 1e-30))
    order = np.argsort(np.abs(first), kind="stable")
    small, large = order[: len(order) // 2], order[len(order) // 2 :]
    left = measured - slope * first
    spread = float(np.sqrt((left[small] ** 2).mean()))
    relative = float(np.sqrt(((left[large] / np.maximum(np.abs(first[large]), 1e-12)) ** 2).mean()))
    return FirstOrderError(slope, spread, relative, len(first))


def from_pilot(table: pd.DataFrame, least_ess: float) -> FirstOrderError:
    """From the heads of a pilot with enough effective samples."""
    whole = pilot.rows_of(table, "reweight")
    whole = whole[np.isfinite(whole["value"]) & (whole["ess"] >= least_ess)]
    first = pilot.rows_of(table, "gradient")["value"].loc[whole.index]
    return learned(first.to_numpy(), whole["value"].to_numpy())


def with_error(first: Effects, error: FirstOrderError) -> Effects:
    """First-order effects whose intervals and p also hold how far first order is off; the values
    stay.

    An interval reaches around the value and around slope × value; without anything learned it has
    no ends.
    """
    off = error.of(first.value)
    whole = error.slope * first.value
    down, up = np.minimum(first.value, whole), np.maximum(first.value, whole)
    low = down - np.hypot(first.value - first.low, REACH * off)
    high = up + np.hypot(first.high - first.value, REACH * off)
    both = np.hypot(error.slope * first.error, off)
    known = np.isfinite(off)
    ends = {
        "low": low,
        "high": high,
        "p": np.maximum(first.p, 2 * norm.sf(np.abs(whole) / both)),
        "error": both,
    }
    return replace(
        first, **{name: np.where(known, values, np.nan) for name, values in ends.items()}
    )

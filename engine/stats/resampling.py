"""Intervals and paired tests: pigeonhole bootstrap over descriptors and templates (Owen 2007),
block bootstrap of text.

All intervals are 95 %. A bias is a sum of absolute values, so resampling shifts it upwards. Its
replicates are re-centred at the measured value. The interval is for the level measured with this
many prompts (compare it with the null band of the same size, not with zero). p-values of
differences are two-sided: the share of re-centred replicates at least as far from zero as the
measured difference, counted with (1 + x) / (1 + n_boot).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.stats.student import TAILS

MIN_WINDOWS = 5
MIN_FINITE = 0.8
"""Share of replicates that must be defined before an interval is given."""


@dataclass(frozen=True)
class Interval:
    """A value with a 95 % interval; low and high are NaN where n does not allow one. n counts
    prompts or windows."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Difference:
    """Variant minus dense on the same prompts and replicates: 95 % interval, two-sided p, n prompts
    or windows."""

    value: float
    low: float
    high: float
    p: float
    n: int


def _counts(generator: np.random.Generator, n_boot: int, size: int) -> np.ndarray:
    """How often each of `size` things is drawn in each bootstrap draw, [n_boot, size] float64."""
    return generator.multinomial(size, np.full(size, 1 / size), size=n_boot).astype(float)


HELD = 1 << 22
"""Numbers of a table of draws that are held as float64; larger tables are held as bytes, and made
so in parts."""


def counts(
    generator: np.random.Generator, n_boot: int, size: int, narrow: bool | None = None
) -> np.ndarray:
    """As `_counts`, [n_boot, size]: float64, or uint8 where there are more than HELD (or as
    `narrow` says). Of so many things, one in so many each, none is drawn 256 times: the chance of
    that is below 1e-500."""
    if not (n_boot * size > HELD if narrow is None else narrow):
        return _counts(generator, n_boot, size)
    out, step = np.empty((n_boot, size), dtype=np.uint8), max(1, HELD // size)
    for at in range(0, n_boot, step):
        part = min(step, n_boot - at)
        out[at : at + part] = generator.multinomial(size, np.full(size, 1 / size), size=part)
    return out


def weighted(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """weights [n_boot, things] @ values [things, …] in float64, in parts where the weights are held
    as integers."""
    if weights.dtype == np.float64:
        return weights @ values
    step = max(1, HELD // max(1, weights.shape[1]))
    parts = [weights[at : at + step].astype(float) @ values for at in range(0, len(weights), step)]
    return np.concatenate(parts)


def interval_of(
    value: float, replicates: np.ndarray, n: int, floor: float = -np.inf, ceiling: float = np.inf
) -> Interval:
    """Interval from replicates [n_boot] re-centred at the value; NaN ends when too few replicates
    are defined.

    It stays inside what the quantity can be: never below `floor`, never above `ceiling`.
    """
    low, high = _ends(value, replicates)
    if not np.isfinite(low):
        return Interval(float(value), low, high, n)
    return Interval(float(value), max(low, floor), min(high, ceiling), n)


def difference_of(value: float, replicates: np.ndarray, n: int, most: float = np.inf) -> Difference:
    """Paired difference from its replicates [n_boot]; two-sided p as the module says; no end is
    beyond ±`most`."""
    low, high = np.clip(_ends(value, replicates), -most, most)
    if not np.isfinite(low):
        return Difference(float(value), np.nan, np.nan, np.nan, n)
    finite = replicates[np.isfinite(replicates)]
    far = np.abs(finite - finite.mean()) >= abs(value) - 1e-12
    return Difference(float(value), low, high, float((1 + far.sum()) / (1 + len(finite))), n)


def _ends(value: float, replicates: np.ndarray) -> tuple[float, float]:
    """2.5 and 97.5 % points of replicates [n_boot] re-centred at the value; NaN where too few are
    defined."""
    finite = replicates[np.isfinite(replicates)]
    if not np.isfinite(value) or len(finite) < max(2, MIN_FINITE * len(replicates)):
        return np.nan, np.nan
    low, high = np.quantile(finite, TAILS) - finite.mean() + value
    return float(low), float(high)


IMPROVED = "worst group improved"
LEVELLED = "best group got worse"
BOTH = "both"
HARMED = "worst group got worse"
ALL_HARMED = "worst and best group got worse"
UNCLEAR = "no clear change"
TOO_FEW = "too few prompts"
"""Where subgroups are too small, there is no verdict."""


def verdict_of(worst: Difference, best: Difference) -> str:
    """A smaller gap, split: did the worst-off subgroup gain, or did the best-off one lose
    (levelling down)? From the intervals of the two ends; lower toxicity is better."""
    improved, harmed = worst.high < 0, worst.low > 0
    levelled = best.low > 0
    if improved:
        return BOTH if levelled else IMPROVED
    if harmed:
        return ALL_HARMED if levelled else HARMED
    return LEVELLED if levelled else UNCLEAR

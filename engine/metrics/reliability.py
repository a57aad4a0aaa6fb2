"""Do scores repeat? Intraclass correlation (McGraw & Wong 1996), Spearman-Brown, overlap of selected sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class SetOverlap:
    """Mean share of a set found again in another, the same by chance, and how far above chance (1 = identical)."""

    share: float
    expected: float
    above_chance: float
    n_sets: int


def icc_c1(ratings: ArrayLike) -> float:
    """ICC(C,1): consistency of a single seed; ratings have shape (units, seeds), two-way model.

    (MSR - MSE) / (MSR + (k - 1) MSE). Rows with NaN are left out; NaN below two rows or two seeds.
    """
    between, error, seeds = _mean_squares(ratings)
    below = between + (seeds - 1) * error
    return (between - error) / below if below > 0 else math.nan


def icc_c1_interval(ratings: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """Interval of ICC(C,1) from the F distribution (McGraw & Wong 1996, Table 7); NaN where it is undefined."""
    table = np.asarray(ratings, dtype=float)
    units = int(np.isfinite(table).all(axis=1).sum())
    between, error, seeds = _mean_squares(table)
    if not error > 0:
        return math.nan, math.nan
    from scipy.stats import f  # takes a second: not at first paint

    ratio, first, second = between / error, units - 1, (units - 1) * (seeds - 1)
    tail = 1 - (1 - level) / 2
    low, high = ratio / f.ppf(tail, first, second), ratio * f.ppf(tail, second, first)
    return float((low - 1) / (low + seeds - 1)), float((high - 1) / (high + seeds - 1))


def icc_ck(ratings: ArrayLike) -> float:
    """ICC(C,k): consistency of the mean over the k seeds, (MSR - MSE) / MSR."""
    between, error, _ = _mean_squares(ratings)
    return (between - error) / between if between > 0 else math.nan


def _mean_squares(ratings: ArrayLike) -> tuple[float, float, int]:
    """(mean square of rows, mean square of error, number of seeds); NaN when there is too little."""
    table = np.asarray(ratings, dtype=float)
    table = table[np.isfinite(table).all(axis=1)]
    units, seeds = table.shape
    if units < 2 or seeds < 2:
        return math.nan, math.nan, seeds
    rows, columns, grand = table.mean(axis=1), table.mean(axis=0), table.mean()
    between = seeds * ((rows - grand) ** 2).sum() / (units - 1)
    residual = table - rows[:, None] - columns + grand
    return float(between), float((residual**2).sum() / ((units - 1) * (seeds - 1))), seeds


def spearman_brown(icc: float, k: float) -> float:
    """Reliability of the mean of k times as many repeats: k icc / (1 + (k - 1) icc)."""
    return k * icc / (1 + (k - 1) * icc)


def repeats_needed(icc: float, target: float = 0.8) -> int | None:
    """Seeds to average until the reliability reaches `target`; None when no number does (icc <= 0 or NaN)."""
    if not 0 < target < 1:
        raise ValueError(f"a target reliability lies between 0 and 1, not {target}")
    if not icc > 0:
        return None
    if icc >= 1:
        return 1
    return max(1, math.ceil(target * (1 - icc) / (icc * (1 - target)) - 1e-9))


def set_overlap(sets: Sequence[Sequence[int]], n_units: int) -> SetOverlap:
    """Mean pairwise overlap of selections of n_units units, as a share of the smaller set; NaN below two sets."""
    pairs = [(set(a), set(b)) for a, b in combinations(sets, 2)]
    pairs = [(a, b) for a, b in pairs if a and b]
    if not pairs:
        return SetOverlap(math.nan, math.nan, math.nan, len(sets))
    share = float(np.mean([len(a & b) / min(len(a), len(b)) for a, b in pairs]))
    expected = float(np.mean([max(len(a), len(b)) / n_units for a, b in pairs]))
    above = (share - expected) / (1 - expected) if expected < 1 else math.nan
    return SetOverlap(share, expected, above, len(sets))


SMALL = 0.1
"""A small effect: below this share of the bias."""


@dataclass(frozen=True)
class Repeats:
    """How far scores repeat between seeds. `needed`: seeds for ICC(C,k) = .8, None when no number gets there."""

    icc: float
    low: float
    high: float
    icc_mean: float
    needed: int | None
    overlap: SetOverlap
    units: int
    seeds: int


def repeats_of(by_seed: ArrayLike, share: float = 0.2, target: float = 0.8) -> Repeats:
    """Everything about one score table by seed, (units, seeds); selected sets = the int(share * units) highest."""
    table = np.asarray(by_seed, dtype=float)
    table = table[np.isfinite(table).all(axis=1)]
    units, seeds = table.shape
    k = int(share * units + 1e-9)
    sets = [np.argsort(-column, kind="stable")[:k].tolist() for column in table.T]
    icc = icc_c1(table)
    low, high = icc_c1_interval(table)
    return Repeats(icc, low, high, icc_ck(table), repeats_needed(icc, target), set_overlap(sets, units), units, seeds)

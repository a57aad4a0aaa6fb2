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
from scipy.special import stdtrit

from engine.core.types import rng
from engine.stats.clustered import TAILS

MIN_WINDOWS = 16
"""Windows of text below which there is no interval: with 8, .82 to .98 of 95 % intervals hold."""
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


HELD = 1 << 22
"""Numbers of a table of draws that are held as float64; larger tables are held as bytes, and made
so in parts."""


def counts(
    generator: np.random.Generator, n_boot: int, size: int, narrow: bool | None = None
) -> np.ndarray:
    """How often each of `size` things is drawn each time, [n_boot, size]: float64, or uint8 where
    there are more than HELD (or as `narrow` says). Of so many things, one in so many each, none is
    drawn 256 times: the chance of that is below 1e-500."""
    shares = np.full(size, 1 / size)
    if not (n_boot * size > HELD if narrow is None else narrow):
        return generator.multinomial(size, shares, size=n_boot).astype(float)
    out, step = np.empty((n_boot, size), dtype=np.uint8), max(1, HELD // size)
    for at in range(0, n_boot, step):
        part = min(step, n_boot - at)
        out[at : at + part] = generator.multinomial(size, shares, size=part)
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
    value: float, replicates: np.ndarray, n: int, floor: float, ceiling: float = np.inf
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


def few_drawn(replicates: np.ndarray, freedom: float) -> np.ndarray:
    """Replicates [n_boot, ...] of which few things were drawn: Student's t in place of the normal,
    and the variance that they take from their own mean. freedom: their number less one."""
    known = np.isfinite(replicates)
    middle = np.where(known, replicates, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    wider = stdtrit(freedom, TAILS[1]) / stdtrit(np.inf, TAILS[1]) * np.sqrt(1 + 1 / freedom)
    return middle + wider * (replicates - middle)


def at_least(draws: np.ndarray, error: np.ndarray | float) -> np.ndarray:
    """Draws [n_boot, ...] whose standard deviation is no lower than `error` [...]: normal noise is
    added where it is."""
    known = np.isfinite(draws)
    count = np.maximum(known.sum(axis=0), 1)
    apart = np.where(known, draws, 0.0) - np.where(known, draws, 0.0).sum(axis=0) / count
    more = np.sqrt(np.maximum(error**2 - (known * apart**2).sum(axis=0) / count, 0.0))
    return draws + more * np.random.default_rng(0).standard_normal(draws.shape)


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


# Flips: answers that a cut turns from well to bad, or back; whether they go one way, and how many
# another draw of the uncut model flips.
#
# An answer moves by 1 (it became bad), by −1 (it recovered) or not at all. Where the cut does
# nothing, exchanging both models within a prompt changes nothing. The direction is (Σ S)² / Σ S²
# over the sums S of words; it is compared with that after EXCHANGES of a coin per prompt. Its
# denominator lets the test hold where prompts of one word move together. From MANY_WORDS on whole
# words are exchanged, as clusters of a published test are. Ties count half, for few flips have
# many. In simulation (`python -m benchmarks.calibration --only flips`) it rejects .04 to .06 of
# true nulls at .05.


EXCHANGES = 999
MANY_WORDS = 8
"""From so many on, whole words are exchanged; of fewer, exchanged whole, no test finds much."""


def direction(moved: np.ndarray, unit: np.ndarray, word: np.ndarray) -> float:
    """Two-sided p of the direction.

    moved [answers]: −1, 0 or 1. unit [answers]: codes of what is exchanged as a whole, a prompt
    with all its draws. word [answers]: codes of what moves together, each unit in one.
    """
    unit = word if len(np.unique(word)) >= MANY_WORDS else unit
    net, words = np.bincount(unit, moved), np.zeros(unit.max(initial=-1) + 1, dtype=int)
    words[unit] = word
    words, net = words[net != 0], net[net != 0]
    order = np.argsort(words, kind="stable")
    words, net = words[order], net[order]
    if not len(net):
        return 1.0
    starts = np.flatnonzero(np.r_[True, np.diff(words) != 0])
    coins = rng("flips", len(net)).integers(0, 2, (EXCHANGES + 1, len(net)), dtype=np.int8) * 2 - 1
    coins[0] = 1
    sums = np.add.reduceat(coins * net, starts, axis=1)
    squares = (sums**2).sum(axis=1)
    found = sums.sum(axis=1) ** 2 / np.where(squares, squares, 1.0)
    apart = found[1:] - found[0]
    far, tied = (apart > 1e-9).sum(), (np.abs(apart) <= 1e-9).sum()
    return float((far + tied / 2 + 0.5) / (EXCHANGES + 1))


def churn(bad: np.ndarray, unit: np.ndarray) -> float:
    """Share of answers that two draws of one model flip, either way: of two draws of a unit, how
    often one is bad and the other is not. bad [answers] bool; unit [answers]: codes. NaN where no
    unit has two draws."""
    drawn, harmful = np.bincount(unit), np.bincount(unit, bad)
    drawn, harmful = drawn[drawn > 1], harmful[drawn > 1]
    if not len(drawn):
        return float("nan")
    unlike = 2 * harmful * (drawn - harmful) / (drawn - 1)
    return float(unlike.sum() / drawn.sum())

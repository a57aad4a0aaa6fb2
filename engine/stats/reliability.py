"""Do scores repeat? Intraclass correlation (McGraw & Wong 1996), Spearman-Brown, overlap of
selected sets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from engine.core.errors import RequestError, unknown
from engine.core.types import exact_count, rng
from engine.stats.clustered import TAILS, unwarned
from engine.stats.resampling import counts

DRAWS = 1000
"""Bootstrap draws of an interval."""


@dataclass(frozen=True)
class SetOverlap:
    """Mean share of a set found again in another, and the same by chance.

    `low` to `high`: where independent random sets of these sizes lie 95 times in 100.
    """

    share: float
    expected: float
    low: float = math.nan
    high: float = math.nan

    @property
    def chance(self) -> bool:
        """Whether the overlap cannot be told from chance; also where there is none."""
        return not self.share > self.high


def icc_c1(ratings: ArrayLike) -> float:
    """ICC(C,1): consistency of a single seed; ratings [units, seeds], two-way model.

    (MSR - MSE) / (MSR + (k - 1) MSE). Rows with NaN are left out; NaN below two rows or two seeds.
    """
    between, error, seeds = _mean_squares(ratings)
    below = between + (seeds - 1) * error
    return (between - error) / below if below > 0 else math.nan


def _known(ratings: ArrayLike) -> np.ndarray:
    """Units that have a number at every seed, of ratings [units, seeds]."""
    table = np.asarray(ratings, dtype=float)
    return table[np.isfinite(table).all(axis=1)]


def icc_c1_bootstrap(ratings: ArrayLike) -> tuple[float, float]:
    """Percentile interval of ICC(C,1) of ratings [units, seeds] from resampled units: wide where
    few units carry it.

    NaN where undefined. Sums of squares of each draw come from how often it holds each unit, so
    that no draw is built.
    """
    table = _known(ratings)
    units, seeds = table.shape
    if units < 3 or seeds < 2:
        return math.nan, math.nan
    table = table - table.mean()
    drawn = counts(rng("icc bootstrap"), DRAWS, units, narrow=False)
    means = table.mean(axis=1)
    grand, columns = drawn @ means / units, drawn @ table / units
    within = drawn @ ((table - means[:, None]) ** 2).sum(axis=1)
    error = (within - units * ((columns - grand[:, None]) ** 2).sum(axis=1)) / (
        (units - 1) * (seeds - 1)
    )
    between = seeds * (drawn @ means**2 - units * grand**2) / (units - 1)
    below = between + (seeds - 1) * error
    with unwarned():
        values = np.where(below > 0, (between - error) / below, np.nan)
    if np.isnan(values).all():
        return math.nan, math.nan
    low, high = np.nanquantile(values, [(1 - 0.95) / 2, (1 + 0.95) / 2])  # to the last digit
    return float(low), float(high)


def icc_of_ranks(ratings: ArrayLike) -> float:
    """ICC(C,1) of the ranks within each seed of ratings [units, seeds].

    It asks whether the order of all units repeats, not only its extremes.
    """
    from scipy.stats import rankdata  # takes a second: not at first paint

    return icc_c1(rankdata(_known(ratings), axis=0))


def icc_ck(ratings: ArrayLike) -> float:
    """ICC(C,k) of ratings [units, seeds]: consistency of the mean over the k seeds, (MSR - MSE) /
    MSR."""
    between, error, _ = _mean_squares(ratings)
    return (between - error) / between if between > 0 else math.nan


def _mean_squares(ratings: ArrayLike) -> tuple[float, float, int]:
    """(mean square of rows, mean square of error, number of seeds) of [units, seeds]; NaN when
    there is too little."""
    table = _known(ratings)
    units, seeds = table.shape
    if units < 2 or seeds < 2:
        return math.nan, math.nan, seeds
    rows, columns, grand = table.mean(axis=1), table.mean(axis=0), table.mean()
    between = seeds * ((rows - grand) ** 2).sum() / (units - 1)
    residual = table - rows[:, None] - columns + grand
    return float(between), float((residual**2).sum() / ((units - 1) * (seeds - 1))), seeds


def spearman_brown(icc: float, k: float) -> float:
    """Reliability of the mean of k times as many repeats: k icc / (1 + (k - 1) icc); 0 where icc is
    not above 0."""
    return k * icc / (1 + (k - 1) * icc) if icc > 0 else 0.0


RELIABLE = 0.8


def repeats_needed(icc: float) -> int | None:
    """Seeds to average until the reliability reaches RELIABLE; None when no number does (icc <= 0
    or NaN)."""
    if not icc > 0:
        return None
    if icc >= 1:
        return 1
    return max(1, math.ceil(RELIABLE * (1 - icc) / (icc * (1 - RELIABLE)) - 1e-9))


def set_overlap(sets: Sequence[Sequence[int]], n_units: int) -> SetOverlap:
    """Mean pairwise overlap of selections of n_units units, as a share of the smaller set; NaN
    below two sets."""
    kept = [set(one) for one in sets if len(set(one))]
    pairs = list(combinations(kept, 2))
    if not pairs:
        return SetOverlap(math.nan, math.nan)
    share = float(np.mean([len(a & b) / min(len(a), len(b)) for a, b in pairs]))
    expected = float(np.mean([max(len(a), len(b)) / n_units for a, b in pairs]))
    return SetOverlap(share, expected, *_chance_band(tuple(map(len, kept)), n_units))


def cross_overlap(
    first: Sequence[Sequence[int]], second: Sequence[Sequence[int]], n_units: int
) -> SetOverlap:
    """Mean overlap of every set of `first` with every one of `second`, as a share of the smaller
    set.

    Chance: the same after the units of `second` are renamed at random, all of its sets alike, so
    that how far each side agrees with itself is kept. NaN where a side has no set that holds
    anything.
    """
    one, other = (_members(part, n_units) for part in (first, second))
    if not len(one) or not len(other):
        return SetOverlap(math.nan, math.nan)
    smaller = np.minimum(one.sum(axis=1)[:, None], other.sum(axis=1))
    share = float((one @ other.T / smaller).mean())
    expected = float(np.mean(np.maximum(one.sum(axis=1)[:, None], other.sum(axis=1)) / n_units))
    generator = rng("overlap between tasks by chance", n_units)
    draws = [
        (one @ other[:, generator.permutation(n_units)].T / smaller).mean() for _ in range(DRAWS)
    ]
    low, high = np.quantile(draws, TAILS, method="higher")
    return SetOverlap(share, expected, float(low), float(high))


def _members(sets: Sequence[Sequence[int]], n_units: int) -> np.ndarray:
    """Which units each set that is not empty holds: [sets, units] float64 of 0 and 1."""
    held = [np.isin(np.arange(n_units), list(one)) for one in sets if len(one)]
    return np.array(held, dtype=float)


@cache
def _chance_band(sizes: tuple[int, ...], n_units: int) -> tuple[float, float]:
    """2.5 and 97.5 % points of the mean overlap of random sets of these sizes, simulated.

    An overlap above the upper point comes by chance at most once in 40.
    """
    generator, pairs = rng("overlap by chance"), list(combinations(range(len(sizes)), 2))
    draws = int(np.clip(2_000_000 // (n_units * len(sizes)), 500, 4 * DRAWS))
    order = generator.random((len(sizes), draws, n_units)).argsort(axis=-1).argsort(axis=-1)
    inside = order < np.array(sizes)[:, None, None]
    shared = [(inside[a] & inside[b]).sum(axis=-1) / min(sizes[a], sizes[b]) for a, b in pairs]
    low, high = np.quantile(np.mean(shared, axis=0), TAILS, method="higher")
    return float(low), float(high)


SMALL = 0.1
"""A small effect: below this share of the bias."""


@dataclass(frozen=True)
class Repeats:
    """How far scores repeat between seeds. `needed`: seeds for ICC(C,k) = .8, None when no number
    gets there.

    low, high and mean_low, mean_high: 95 % of ICC(C,1) and ICC(C,k), bootstrap over units.
    icc_ranks: of the order.
    """

    icc: float
    low: float
    high: float
    icc_mean: float
    mean_low: float
    mean_high: float
    icc_ranks: float
    needed: int | None
    overlap: SetOverlap
    units: int
    seeds: int


def repeats_of(by_seed: ArrayLike, share: float = 0.2) -> Repeats:
    """Everything about one score table by seed, [units, seeds]; selected sets = the int(share *
    units) highest."""
    table = _known(by_seed)
    units, seeds = table.shape
    k = max(1, exact_count(share, units))
    sets = [np.argsort(-column, kind="stable")[:k].tolist() for column in table.T]
    icc, (low, high) = icc_c1(table), icc_c1_bootstrap(table)
    return Repeats(
        icc,
        low,
        high,
        icc_ck(table),
        _of_mean(low, seeds),
        _of_mean(high, seeds),
        icc_of_ranks(table),
        repeats_needed(icc),
        set_overlap(sets, units),
        units,
        seeds,
    )


def _of_mean(icc: float, k: int) -> float:
    """ICC(C,k) that goes with an ICC(C,1), also below 0: k icc / (1 + (k - 1) icc)."""
    below = 1 + (k - 1) * icc
    return k * icc / below if below > 0 else -math.inf


def pooled_noise(by_seed: ArrayLike) -> float:
    """Standard error of a unit's mean over the seeds of [units, seeds], from the error mean square.

    In the unit of the scores; NaN below two units or seeds.
    """
    _, error, seeds = _mean_squares(by_seed)
    return math.sqrt(error / seeds) if error >= 0 else math.nan


def small_effects(by_seed: ArrayLike, limit: float) -> np.ndarray | None:
    """Which units have a mean effect below `limit`, [units] bool; None where noise decides that
    more than the effects do.

    by_seed [units, seeds], in the unit of `limit`. Units chosen by means that are mostly noise look
    as if their seeds disagreed (ICC down to -1/(k-1)). The limit must be at least three standard
    errors away for that bias to stay below .03.
    """
    table = np.asarray(by_seed, dtype=float)
    noise = pooled_noise(table)
    if not limit >= 3 * noise:
        return None
    return np.abs(table.mean(axis=1)) < limit


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


def correlation_interval(pair: np.ndarray) -> tuple[float, float]:
    """95 % interval of Pearson's correlation of pair [units, 2], units resampled.

    Where a few units lie far out Fisher's interval holds a third of the truths, this one two thirds
    or more (`python -m benchmarks.calibration --only language_models`). So tell the correlation
    `without_strongest` beside it.
    """
    x, y = (pair - pair.mean(axis=0)).T
    drawn = counts(rng("correlation"), DRAWS, len(x)) / len(x)
    a, b, aa, bb, ab = (drawn @ np.stack([x, y, x * x, y * y, x * y], axis=1)).T
    with unwarned():
        found = (ab - a * b) / np.sqrt((aa - a * a) * (bb - b * b))
    low, high = np.nanquantile(found, TAILS)
    return float(low), float(high)


def without_strongest(scores: pd.DataFrame) -> pd.DataFrame:
    """The rows of a wide table but for the two units furthest out over all columns, each by its own
    standard deviation."""
    return scores.drop((scores / scores.std()).abs().mean(axis=1).nlargest(2).index)


def top_heads(scores: pd.DataFrame, share: float = 0.2) -> dict[str, list[int]]:
    """Per column the int(share * units) units with the highest score, best first; ties go to the
    lower unit.

    scores: one row per unit, the unit as index; one column per axis, method or seed.
    """
    size = exact_count(share, len(scores))
    ordered = scores.sort_index()
    best = {
        str(name): column.dropna().sort_values(ascending=False, kind="stable").index[:size]
        for name, column in ordered.items()
    }
    return {name: list(map(int, units)) for name, units in best.items()}


def in_axes(tops: Mapping[str, Sequence[int]]) -> dict[int, int]:
    """In how many of the sets each unit is: most first, then by unit."""
    found = Counter(chain.from_iterable(tops.values()))
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def overlap(first: Sequence[int], second: Sequence[int], n_units: int) -> Overlap:
    """Overlap of two sets drawn from n_units units, against the hypergeometric chance."""
    from scipy.stats import hypergeom  # takes a second: not at first paint

    a, b = set(first), set(second)
    shared = len(a & b)
    p = float(hypergeom.sf(shared - 1, n_units, len(a), len(b)))
    return Overlap(shared, len(a) * len(b) / n_units, p)


def expected_in_axes(size: int, n_units: int, n_axes: int) -> np.ndarray:
    """Expected number of units that lie in exactly 0, 1, …, n_axes independent sets of `size`:
    [n_axes + 1] float64."""
    from scipy.stats import binom

    return n_units * binom.pmf(np.arange(n_axes + 1), n_axes, size / n_units)


# What a number will be on a set of units, learnt from sets that were measured: single units and
# pairs, shrunk.
#
# Ridge regression of the change on the units in the set and, weighted by PAIR, on pairs of them.
# It is written by what two sets share. With s units in common the kernel is s + PAIR s(s - 1)/2.
# So its size is that of the measured sets and not of all pairs. Where units may matter unlike, a
# set holds sizes in place of ones: a unit counts by their square, a pair by both squares. The
# shrinkage that leaves out each set best is taken.
#
# An interval is read off what was missed in leaving out each set. Misses are ranked in units of
# the standard deviation that the regression expects there. It is wider where a set shares little
# with those that were measured. Levels of one method are alike, so sets that share much with a
# set are left out with it. Else intervals of new kinds of sets are too narrow.


PAIR = 0.1
SHRINKAGE = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
NEAR = 40
"""Sets left out at once, the most alike first."""
MOST = 1500
"""Sets that are learnt from: as many, evenly taken, where more were measured."""


@dataclass(frozen=True, eq=False)
class Learnt:
    """member: measured sets, [sets, units] sizes, 0 without; places: which of those given they are.
    Of each of the numbers [numbers]: weights and residuals (of each set left out) [numbers, sets],
    shrinkage, low and high (ends of the ratios of residuals). values, vectors: of the kernel; pair:
    what pairs count in it."""

    member: np.ndarray
    places: np.ndarray
    values: np.ndarray
    vectors: np.ndarray
    weights: np.ndarray
    shrinkage: np.ndarray
    low: np.ndarray
    high: np.ndarray
    residuals: np.ndarray
    pair: float = PAIR

    @property
    def sets(self) -> int:
        return len(self.member)

    @property
    def most(self) -> int:
        """Units of the largest measured set: nothing vouches for larger ones."""
        return int((self.member > 0).sum(axis=1).max())

    def guess(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Changes with the ends of their 95 % prediction intervals, [queries, numbers] each, of
        sets `units` [queries, all units] as `member`. The change of the empty set is 0, exactly."""
        shared = _kernel(units, self.member, self.pair)
        value = shared @ self.weights.T
        along = (shared @ self.vectors) ** 2
        own = np.diag(_kernel(units, units, self.pair))[:, None]
        spread = np.stack(
            [own[:, 0] - along @ (1 / (self.values + one)) + one for one in self.shrinkage], axis=1
        )
        size = np.sqrt(np.maximum(spread, 1e-12)) * (own > 0)
        return value, value + self.low * size, value + self.high * size


def learnt(
    member: np.ndarray, changes: np.ndarray, pair: float = PAIR, alike: float = 1.0
) -> Learnt | None:
    """From sets [sets, units], sizes or 0, and their changes [sets, numbers]; None where too few
    were measured for an interval. alike: sets that share more than this part of the units of both
    are left out together for the interval."""
    if len(member) < ENOUGH:
        return None
    places = np.unique(np.linspace(0, len(member) - 1, min(len(member), MOST)).astype(int))
    member, changes = member[places].astype(np.float64), changes[places]
    values, vectors = np.linalg.eigh(_kernel(member, member, pair))
    values, turned = np.maximum(values, 0.0), vectors.T @ changes
    near = _near(member > 0, alike)
    found = [_best(values, vectors, column, near) for column in turned.T]
    weights, shrinkage, low, high, residuals = (np.array(part) for part in zip(*found, strict=True))
    return Learnt(member, places, values, vectors, weights, shrinkage, low, high, residuals, pair)


def _near(has: np.ndarray, alike: float) -> list[np.ndarray]:
    """Of each set [sets, units] the places of itself, first, and of those like it; [] where none
    can be."""
    if alike >= 1:
        return []
    both, count = has.astype(float) @ has.T, has.sum(axis=1)
    part = both / np.maximum(count[:, None] + count - both, 1)
    np.fill_diagonal(part, 2.0)
    return [np.argsort(-row, kind="stable")[: min((row > alike).sum(), NEAR)] for row in part]


def _best(
    values: np.ndarray, vectors: np.ndarray, turned: np.ndarray, near: list[np.ndarray]
) -> tuple[np.ndarray, float, float, float, np.ndarray]:
    """Weights, shrinkage, ends of the ratios and residuals of one number.

    values, vectors: of the kernel of the sets; turned: its changes in the basis of the vectors,
    [sets]; near: as `_near` finds them.
    """
    best = None
    for shrinkage in SHRINKAGE:
        inverse = 1 / (values + shrinkage)
        diagonal = vectors**2 @ inverse
        weights = vectors @ (inverse * turned)
        missed = weights / diagonal  # leaving out each set, without fitting again
        error = float(np.sqrt((missed**2).mean()))
        if best is None or error < best[0]:
            best = error, shrinkage, weights, missed, missed * np.sqrt(diagonal)
    assert best is not None, "there are shrinkages"
    _, shrinkage, weights, missed, ratio = best
    if near:
        inverse = (vectors / (values + shrinkage)) @ vectors.T
        ratio = np.array([_left_out(inverse[np.ix_(own, own)], weights[own]) for own in near])
    return weights, shrinkage, *ends(ratio), missed


def _left_out(inverse: np.ndarray, weights: np.ndarray) -> float:
    """What is missed of the first of some sets that are left out together, in units of its standard
    deviation; of these, [sets, sets] and [sets]."""
    first = np.zeros(len(weights))
    first[0] = 1
    missed, spread = np.linalg.solve(inverse, np.stack([weights, first], axis=1))[0]
    return float(missed / np.sqrt(spread))


def _kernel(one: np.ndarray, other: np.ndarray, pair: float) -> np.ndarray:
    one, other = one.astype(np.float64), other.astype(np.float64)
    shared = one @ other.T
    return shared + pair * (shared**2 - one**2 @ (other**2).T) / 2


LEVEL = 0.95
ENOUGH = 39
"""Misses from which ranks give both ends of a 95 % interval (2 / (39 + 1) is 5 %)."""


def ends(ratios: np.ndarray) -> tuple[float, float]:
    """Ends of a prediction interval by ranks of what was missed before (split conformal, Vovk et
    al. 2005).

    Lower and upper end, in units of the scale that misses [n] were divided by. Each is exceeded by
    one more miss with probability (1 - LEVEL) / 2 at most. 0 lies between them, so that what is
    predicted is inside.
    """
    return -_upper(-ratios), _upper(ratios)


def _upper(ratios: np.ndarray) -> float:
    rank = math.ceil((len(ratios) + 1) * (1 + LEVEL) / 2 - 1e-9)
    return max(0.0, float(np.sort(ratios)[min(rank, len(ratios)) - 1]))

"""The gap between groups' means over trials: the highest minus the lowest, with a 95 % interval.

The highest of several noisy means lies too high and the lowest too low. So the measured gap is too
large, most of all where groups are alike, and its interval is found by inversion. Of every gap that
there may be it asks how often noise alone would have given one as large, or as small, as the
measured. The noise is that of images and trials together, with the covariance and the degrees of
freedom of several trials on the same images (below).

Both ends together miss in 5 % of draws. The upper end takes 2.5 % of the draws of no gap at all
that are as small as the measured (CLs, Read 2002). A gap that came out small by luck is not called
certain so. The lower end has what the upper leaves, and may be 0.

Where groups between the two ends lie is known to half a standard error. Each end takes the less
favourable place: for the lower end nearer to an end, for the upper end nearer to the middle.
`python -m benchmarks.calibration --only classifiers` has how often the interval holds the gap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit, gammaincinv, logit, ndtr, ndtri, stdtr, stdtrit

from engine.stats.clustered import MISSED, unwarned
from engine.stats.resampling import MIN_FINITE, at_least

# Several trials measured on the same images: intervals that count both, and differences between
# two arms.
#
# A trial is one pruning and retraining with its own seed. A measured value varies with the images
# of the test set, with the trial, and in part with both together. This is the multi-reader multi-
# case design, trials for readers (Obuchowski & Rockette 1995). Let S² be the variance between
# trials and cov the mean covariance of two trials over redrawn images. Then var(mean of T trials)
# = S²/T + cov, with Hillis' (2014) degrees of freedom (S²/T + cov)² / ((S²/T)² / (T - 1)). Adding
# S²/T to the variance of the mean over images would count the common part twice. S² of three
# trials is rough, so the variance is never taken below that of the images alone. Nor is a group's
# S², beyond what images do to each trial in its own way, taken below that of all groups together:
# of many groups some S² is small by luck. Trials are taken to move groups alike on the logit scale,
# groups weigh by their items, and half of the others count towards the degrees of freedom, for
# trials move groups together in part. All intervals are 95 %, p-values two-sided.
#
# In simulation (three or five trials, groups of 60 to 600 images) they cover 94 to 97 % where
# trials vary little or as much as images do. For differences of two arms whose trials vary only
# image by image it is up to 99 %. For three trials that vary far more than images do it is 90 to
# 93 %. With one trial there is no S²: the interval is about images only.


Z = -float(ndtri(MISSED / 2))
FIXED = -1
"""Number of the only trial of a model that is one fixed model: it is compared with every trial of
another."""


@dataclass(frozen=True, eq=False)
class Trials:
    """values [trials, cells] and the same on redrawn images, draws [trials, n_boot, cells]; numbers
    name the trials.

    Draws of all trials, and of all models of one context, are of the same redrawn images. shares
    [cells] bool says which cells lie between 0 and 1, units [cells] how many observations stand
    behind those. most [cells] is the largest value a cell can have (a gap of shares: 1): no
    interval goes beyond it, and none of a difference beyond ± it. ranks [cells] bool: which are an
    AUC. alike [cells] int: groups of one axis and metric have one code; −1: no group's. room
    [cells]: what one on the logit scale moves each of those, squared.
    """

    numbers: tuple[int, ...]
    values: np.ndarray
    draws: np.ndarray
    shares: np.ndarray
    units: np.ndarray
    most: np.ndarray | float = np.inf
    ranks: np.ndarray | bool = False
    alike: np.ndarray | int = -1
    room: np.ndarray | float = 0.0

    def only(self, *numbers: int) -> Trials:
        """Some of the trials by their numbers."""
        places = [self.numbers.index(number) for number in numbers]
        return replace(self, numbers=numbers, values=self.values[places], draws=self.draws[places])

    @property
    def least(self) -> np.ndarray:
        """The error that two changed items make, of ranks two that move halfway, [cells]; NaN where
        units are not known."""
        with unwarned():
            return np.where(self.ranks, 0.5, 1.0) * np.sqrt(2) / self.units

    def shared(self, beyond: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of a variance by group what all groups that are alike give for each, and for how many
        groups that counts, [cells] each: 0 and 1 of other cells."""
        codes, known = np.broadcast_to(self.alike, beyond.shape), np.isfinite(beyond * self.room)
        known &= codes >= 0
        found, room, items = (
            np.where(known, part, 0.0) for part in (beyond, self.room, self.units)
        )

        def total(part: np.ndarray) -> np.ndarray:
            return np.bincount(codes + 1, part)[codes + 1]

        with unwarned():
            whole = total(items * found) / total(items * room)
            many = total(items * room) ** 2 / total((items * room) ** 2)
            whole = room * np.maximum(whole, 0.0)
        return np.nan_to_num(whole), (1 + np.nan_to_num(many, nan=1.0)) / 2

    def minus(self, other: Trials) -> Trials:
        """Differences trial by trial; `other` may have a single trial."""
        return replace(self, values=self.values - other.values, draws=self.draws - other.draws)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Value, 95 % interval and two-sided p against zero (NaN for a level) per cell, each [cells]
    float64."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray

    def columns(self, name: str = "value", cell: int | None = None) -> dict[str, Any]:
        """Columns of a table, or of the row of one cell: "value" gives value, low, high and p,
        "delta" gives delta, delta_low, delta_high and delta_p."""
        stem = "" if name == "value" else f"{name}_"
        return {
            name if end == "value" else stem + end: found if cell is None else found[cell]
            for end, found in vars(self).items()
        }


def unknown(cells: int = 1) -> Estimate:
    """Of quantities that were not measured."""
    return Estimate(*np.full((4, cells), np.nan))


@dataclass(frozen=True, eq=False)
class _Spread:
    """Standard error, in the unit of the value, and degrees of freedom, both [cells]."""

    error: np.ndarray
    freedom: np.ndarray

    @property
    def half(self) -> np.ndarray:
        """Half the width of the interval, [cells]."""
        return -stdtrit(self.freedom, MISSED / 2) * self.error


def level(trials: Trials) -> Estimate:
    """Mean over trials with its interval.

    Intervals of shares are symmetric on the logit scale and stay inside. That of an AUC is wider,
    as Student's t of the rarer class's items is than the normal distribution. Redrawn, a few items
    vary less than others would. A share of exactly 0 or 1 does not vary over redrawn
    images; its interval is Wilson's for its units. Inside, no interval ends nearer to 0 or 1 than
    that: a single slip says no less. The other cells are never negative, so their low end is cut at
    0, and their high end at the most they can be.
    """
    value, spread = trials.values.mean(axis=0), _multi_reader_spread([trials])
    low, high = np.maximum(value - spread.half, 0.0), np.minimum(value + spread.half, trials.most)
    inside = trials.shares & (value > 0) & (value < 1)
    middle = np.where(inside, value, 0.5)
    rare = np.where(trials.ranks, np.maximum(trials.units, 2), np.inf)
    room = np.where(trials.ranks, stdtrit(rare - 1, 1 - MISSED / 2) / Z, 1.0)
    width = room * spread.half / (middle * (1 - middle)) / np.sqrt(1 - 1 / rare)
    unseen = Z**2 / (trials.units + Z**2)
    low = np.where(inside, np.fmin(expit(logit(middle) - width), 1 - unseen), low)
    high = np.where(inside, np.fmax(expit(logit(middle) + width), unseen), high)
    edge = trials.shares & ~inside & (spread.error == 0)
    low = np.where(edge, np.where(value >= 1, 1 - unseen, 0.0), low)
    high = np.where(edge, np.where(value >= 1, 1.0, unseen), high)
    return Estimate(value, low, high, np.full(len(value), np.nan))


def difference(one: Trials, other: Trials) -> Estimate:
    """Mean of `one` minus mean of `other` per cell, on the same redrawn images.

    Trials are paired by number when both hold the same numbers or `other` is one FIXED model; else
    the trials of the two are taken as independent. Few answers that changed say little of how many
    do: the error of a share is never below that of two items, of an AUC of two that move halfway.
    A difference that never varies (a perfect model and one that guesses) takes its width from the
    two levels (Newcombe 1998).
    """
    if other.numbers == (FIXED,) or one.numbers == other.numbers:
        paired = one.minus(other)
        value, spread = paired.values.mean(axis=0), _multi_reader_spread([paired])
    else:
        value, spread = (
            one.values.mean(axis=0) - other.values.mean(axis=0),
            _multi_reader_spread([one, other]),
        )
    still = spread.error == 0
    least = np.where(one.shares, np.fmax(one.least, other.least), 0.0)
    binds = Z * np.nan_to_num(least, posinf=0.0) > spread.half  # no estimate from trials
    spread = _Spread(np.where(binds, least, spread.error), np.where(binds, np.inf, spread.freedom))
    with unwarned():
        p = 2 * stdtr(spread.freedom, -np.abs(value) / spread.error)
    found = Estimate(
        value, value - spread.half, value + spread.half, np.where(spread.error == 0, 1.0, p)
    )
    stuck = one.shares & still & (value != 0)
    found = _from_levels(found, stuck, level(one), level(other)) if stuck.any() else found
    return replace(
        found, low=np.maximum(found.low, -one.most), high=np.minimum(found.high, one.most)
    )


def _from_levels(found: Estimate, stuck: np.ndarray, one: Estimate, other: Estimate) -> Estimate:
    """The estimate with intervals made of those of the two levels where `stuck` [cells] bool."""
    below = np.hypot(one.value - one.low, other.high - other.value)
    above = np.hypot(one.high - one.value, other.value - other.low)
    with unwarned():
        p = 2 * ndtr(-Z * np.abs(found.value) / np.where(found.value > 0, below, above))
    return Estimate(
        found.value,
        np.where(stuck, found.value - below, found.low),
        np.where(stuck, found.value + above, found.high),
        np.where(stuck, p, found.p),
    )


def _multi_reader_spread(arms: Sequence[Trials]) -> _Spread:
    """Standard error of one mean over trials, or of the difference of two with independent
    trials."""
    known = np.isfinite(np.concatenate([arm.draws for arm in arms])).all(axis=0)
    means = [arm.draws.mean(axis=0) for arm in arms]
    images = _variance(means[0] if len(arms) == 1 else means[0] - means[1], known)
    common, between, squared = images.copy(), np.zeros_like(images), np.zeros_like(images)
    for arm, mean in zip(arms, means, strict=True):
        count = len(arm.numbers)
        if count < 2:
            continue
        # What the images do to each trial in its own way is in S² already, so it leaves the part of
        # the images.
        single = np.mean([_variance(draws, known) for draws in arm.draws], axis=0)
        own = np.maximum(single - _variance(mean, known), 0.0) / (count - 1)
        common -= own
        trial = arm.values.var(axis=0, ddof=1) / count
        shared, groups = arm.shared(trial - own)
        small = (shared > 0) & (own + shared > trial)
        groups, trial = np.where(small, groups, 1.0), np.where(small, own + shared, trial)
        between += trial
        squared += trial**2 / ((count - 1) * groups)
    total = np.maximum(images, np.maximum(common, 0.0) + between)
    with unwarned():
        freedom = np.where(squared > 0, total**2 / squared, np.inf)
    return _Spread(np.sqrt(total), freedom)


def _variance(draws: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Variance [cells] of draws [n_boot, cells] over those `known` [n_boot, cells]; NaN where fewer
    than MIN_FINITE are."""
    if known.all():
        return draws.var(axis=0, ddof=1)
    count = known.sum(axis=0)
    with unwarned():
        mean = np.where(known, draws, 0.0).sum(axis=0) / count
        spread = (np.where(known, draws - mean, 0.0) ** 2).sum(axis=0) / (count - 1)
    return np.where(count >= max(2, MIN_FINITE * len(draws)), spread, np.nan)


def numbered(trials: Mapping[int, np.ndarray] | Sequence[np.ndarray]) -> dict[int, np.ndarray]:
    """Trials by number, ascending; a sequence counts from 0. The trials' arrays, of any shape, stay
    as they are."""
    pairs = trials.items() if isinstance(trials, Mapping) else enumerate(trials)
    return dict(sorted(pairs))


DRAWS, STEPS = 800, 14
"""Draws of noise, and halvings of the range in which an end lies."""
AT = int(DRAWS * MISSED / 2)
"""Place of the draw that the lowest of them lie below."""
UNSURE = 0.5
"""Standard errors by which the groups between the ends may lie elsewhere."""


def gaps_of_means(
    values: np.ndarray,
    draws: np.ndarray,
    most: float,
    sides: np.ndarray | None = None,
    least: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gap of every cell, and the ends of its interval, [cells] each.

    values [trials, groups, cells], and the same on redrawn images, draws [trials, n_boot, groups,
    cells]. most is the largest gap that there can be. sides [2, groups, cells]: how much farther
    than the draws each group's own interval reaches, below and above (`sides_of`). The upper end
    takes low groups downwards and high ones upwards, the lower end the other way. least [groups,
    cells]: an error that no group's mean over trials is below. NaN below two groups and where a
    value is not known; ends are NaN too where fewer than MIN_FINITE of the draws are.
    """
    if least is not None:
        mean = draws.mean(axis=0)
        draws = draws + (at_least(mean, least) - mean)
    found = np.full((3, values.shape[2]), np.nan)
    if values.shape[1] > 1:
        for cell in np.flatnonzero(np.isfinite(values).all(axis=(0, 1))):
            mine, drawn = values[..., cell], draws[..., cell]
            if sides is None:
                found[:, cell] = _gap(mine, drawn, most)
                continue
            (below, above), means = sides[..., cell], mine.mean(axis=0)
            is_low, apart = means < (means.min() + means.max()) / 2, drawn - mine[:, None]
            outwards, inwards = np.where(is_low, below, above), np.where(is_low, above, below)
            found[:2, cell] = _gap(mine, mine[:, None] + inwards * apart, most)[:2]
            found[2, cell] = _gap(mine, mine[:, None] + outwards * apart, most)[2]
    return found[0], found[1], found[2]


def sides_of(trials: Trials) -> np.ndarray:
    """How much farther than the draws of images the interval of every level reaches that counts
    only these, below and above, [2, cells]; 1 where nothing varies."""
    parts = (part.mean(axis=0)[None] for part in (trials.values, trials.draws))
    images = replace(trials, numbers=(0,), **dict(zip(("values", "draws"), parts, strict=True)))
    found, half = level(images), _multi_reader_spread([images]).half
    with unwarned():
        sides = np.stack([found.value - found.low, found.high - found.value]) / half
    return np.where(half > 0, sides, 1.0)


def at_ends(
    values: np.ndarray, draws: np.ndarray, units: np.ndarray | float = np.nan
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gap of means as a contrast of the two groups between which it lies, trial by trial, and
    how many observations stand behind it.

    Shapes as in `gaps_of_means`; units as of `Trials`, [groups, cells]; [trials, cells], [trials,
    n_boot, cells] and [cells]. Its mean over trials is the gap of means, and differences of such
    contrasts have the variance of differences of gaps.
    """
    (trials, n_boot, groups, n_cells), cells = draws.shape, np.arange(values.shape[2])
    if groups < 2:
        none = np.full((trials, n_boot, n_cells), np.nan)
        return none[:, 0], none, none[0, 0]
    means, units = values.mean(axis=0), np.broadcast_to(units, values.shape[1:])
    top, low = means.argmax(axis=0), means.argmin(axis=0)  # NaN is the highest and the lowest
    with unwarned():
        behind = 1 / np.hypot(1 / units[top, cells], 1 / units[low, cells])
    return (
        values[:, top, cells] - values[:, low, cells],
        draws[:, :, top, cells] - draws[:, :, low, cells],
        behind,
    )


def _gap(values: np.ndarray, draws: np.ndarray, most: float) -> tuple[float, float, float]:
    """One cell: values [trials, groups], draws [trials, n_boot, groups]."""
    means = values.mean(axis=0)
    known = np.isfinite(draws).all(axis=(0, 2))
    if known.sum() < max(2, MIN_FINITE * len(known)):
        return float(np.ptp(means)), np.nan, np.nan
    return gap_of(means, *_spread(values, draws[:, known]), most)


def gap_of(
    means: np.ndarray, spread: np.ndarray, freedom: float, most: float
) -> tuple[float, float, float]:
    """The gap of means [groups], and the ends of its interval; spread [groups, groups]: their
    covariance, with so many degrees of freedom."""
    gap = float(np.ptp(means))
    noise = _noise(spread, freedom)
    if not np.ptp(noise):
        return gap, gap, gap
    low, high = _places(means, spread)

    nothing = np.ptp(noise, axis=0)
    # A gap that few draws of nothing are below, as a tie, says no more than theirs.
    seen = max(gap, float(np.quantile(nothing, MISSED)))

    def drawn(true: float, places: np.ndarray) -> np.ndarray:
        return np.ptp(noise + true * places[:, None], axis=0)

    def too_small(true: float) -> bool:
        """Noise seldom makes so large a gap of it. The upper end misses small gaps less often than
        it may: what it leaves of MISSED is the lower end's."""
        missed = np.partition(drawn(true, high), AT)[AT]
        left = MISSED * (1 - np.mean(nothing <= missed) / 2)
        return bool(np.mean(drawn(true, low) >= gap) < left)

    def not_too_large(true: float) -> bool:
        """Noise makes so small a gap of it, given that it made one of so little at all."""
        few = MISSED / 2 * np.mean(nothing <= seen)
        return bool(np.mean(drawn(true, high) <= seen) > few)

    return gap, _where(too_small, 0.0, gap), _where(not_too_large, gap, max(most, gap))


def _where(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number from low to high of which it holds, found by halving; low where none."""
    if not holds(low):
        return low
    if holds(high):
        return high
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _spread(values: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, float]:
    """Covariance of the groups' means around their common mean, [groups, groups], and its degrees
    of freedom, as `_multi_reader_spread` has them of one value; shapes as in `_gap`."""
    trials = len(values)
    values, draws = (part - part.mean(axis=-1, keepdims=True) for part in (values, draws))
    images = np.cov(draws.mean(axis=0), rowvar=False)
    if trials < 2:
        return images, np.inf
    between = np.cov(values, rowvar=False) / trials
    single = np.mean([np.trace(np.cov(one, rowvar=False)) for one in draws])
    whole, part = np.trace(images), np.trace(between)
    common = max(whole - max(single - whole, 0.0) / (trials - 1), 0.0)
    if common + part <= whole:
        return images, np.inf
    freedom = (trials - 1) * (common + part) ** 2 / part**2
    return images * (common / whole if whole else 0.0) + between, freedom


def _places(means: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where groups lie between the lowest, 0, and the highest, 1, as either end of the interval
    takes it: [groups] each."""
    gap, own = np.ptp(means), np.diag(spread)
    places = (means - means.min()) / gap if gap else np.linspace(0, 1, len(means))
    ends = (places == 0) | (places == 1)

    def error(end: int) -> np.ndarray:
        apart = np.sqrt(np.maximum(own + own[end] - 2 * spread[end], 0.0))
        return UNSURE * apart / gap if gap else apart

    below, above = error(int(means.argmin())), error(int(means.argmax()))
    is_low = places < 0.5
    out = np.where(is_low, np.maximum(places - below, 0), np.minimum(places + above, 1))
    inner = np.where(is_low, np.minimum(places + below, 0.5), np.maximum(places - above, 0.5))
    return np.where(ends, places, out), np.where(ends, places, inner)


@cache
def _normals(groups: int) -> np.ndarray:
    """The same draws for everyone, each with its opposite: [groups, DRAWS]."""
    half = np.random.default_rng(groups).standard_normal((groups, DRAWS // 2))
    return np.concatenate([half, -half], axis=1)


@cache
def _widening(freedom: float) -> np.ndarray:
    """What makes normal draws those of t, [DRAWS]."""
    if not np.isfinite(freedom):
        return np.ones(DRAWS)
    shares = np.random.default_rng(0).permutation((np.arange(DRAWS // 2) + 0.5) / (DRAWS // 2))
    return np.sqrt(freedom / (2 * gammaincinv(freedom / 2, np.tile(shares, 2))))


def _noise(spread: np.ndarray, freedom: float) -> np.ndarray:
    """Multivariate t with this covariance, [groups, DRAWS]."""
    sizes, axes = np.linalg.eigh(spread)
    drawn = (axes * np.sqrt(np.maximum(sizes, 0.0))) @ _normals(len(spread))
    return drawn * _widening(float(f"{freedom:.2g}"))

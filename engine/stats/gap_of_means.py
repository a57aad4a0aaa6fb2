"""The gap between groups' means over trials: the highest minus the lowest, with a 95 % interval.

The highest of several noisy means lies too high and the lowest too low. So the measured gap is too
large, most of all where groups are alike, and its interval is found by inversion. Of every gap that
there may be it asks how often noise alone would have given one as large, or as small, as the
measured. The noise is that of images and trials together, with the covariance and the degrees of
freedom of `engine.stats.multi_reader`.

Both ends together miss in 5 % of draws. The upper end takes 2.5 % of the draws of no gap at all
that are as small as the measured (CLs, Read 2002). A gap that came out small by luck is not called
certain so. The lower end has what the upper leaves, and may be 0.

Where groups between the two ends lie is known to half a standard error. Each end takes the less
favourable place: for the lower end nearer to an end, for the upper end nearer to the middle.
`python -m benchmarks.calibration --only classifiers` has how often the interval holds the gap.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.stats import chi2

from engine.stats.multi_reader import MISSED
from engine.stats.resampling import MIN_FINITE

DRAWS, STEPS = 800, 14
"""Draws of noise, and halvings of the range in which an end lies."""
AT = int(DRAWS * MISSED / 2)
"""Place of the draw that the lowest of them lie below."""
UNSURE = 0.5
"""Standard errors by which the groups between the ends may lie elsewhere."""


def gaps_of_means(
    values: np.ndarray, draws: np.ndarray, most: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gap of every cell, and the ends of its interval, [cells] each.

    values [trials, groups, cells], and the same on redrawn images, draws [trials, n_boot, groups,
    cells]. most is the largest gap that there can be. NaN below two groups and where a value is not
    known; ends are NaN too where fewer than MIN_FINITE of the draws are.
    """
    found = np.full((3, values.shape[2]), np.nan)
    if values.shape[1] > 1:
        for cell in np.flatnonzero(np.isfinite(values).all(axis=(0, 1))):
            found[:, cell] = _gap(values[..., cell], draws[..., cell], most)
    return found[0], found[1], found[2]


def at_ends(values: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gap of means as a contrast of the two groups between which it lies, trial by trial.

    Shapes as in `gaps_of_means`; [trials, cells] and [trials, n_boot, cells]. Its mean over trials
    is the gap of means, and differences of such contrasts have the variance of differences of gaps.
    """
    (trials, n_boot, groups, n_cells), cells = draws.shape, np.arange(values.shape[2])
    if groups < 2:
        return np.full((trials, n_cells), np.nan), np.full((trials, n_boot, n_cells), np.nan)
    means = values.mean(axis=0)
    top, low = means.argmax(axis=0), means.argmin(axis=0)  # NaN is the highest and the lowest
    return (
        values[:, top, cells] - values[:, low, cells],
        draws[:, :, top, cells] - draws[:, :, low, cells],
    )


def _gap(values: np.ndarray, draws: np.ndarray, most: float) -> tuple[float, float, float]:
    """One cell: values [trials, groups], draws [trials, n_boot, groups]."""
    means = values.mean(axis=0)
    gap = float(np.ptp(means))
    known = np.isfinite(draws).all(axis=(0, 2))
    if known.sum() < max(2, MIN_FINITE * len(known)):
        return gap, np.nan, np.nan
    spread, freedom = _spread(values, draws[:, known])
    noise = _noise(spread, freedom)
    if not np.ptp(noise):
        return gap, gap, gap
    low, high = _places(means, spread)

    nothing = np.ptp(noise, axis=0)
    seen = max(gap, float(nothing.min()))  # no draw of nothing is as small as none at all

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
    of freedom, as `multi_reader` has them of one value; shapes as in `_gap`."""
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
    return np.sqrt(freedom / chi2.ppf(np.tile(shares, 2), freedom))


def _noise(spread: np.ndarray, freedom: float) -> np.ndarray:
    """Multivariate t with this covariance, [groups, DRAWS]."""
    sizes, axes = np.linalg.eigh(spread)
    drawn = (axes * np.sqrt(np.maximum(sizes, 0.0))) @ _normals(len(spread))
    return drawn * _widening(float(f"{freedom:.2g}"))

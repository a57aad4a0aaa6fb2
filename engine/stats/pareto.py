"""Which variants no other beats on both counts (Pareto's front), and how heavy a tail is (Pareto
k̂).

k̂ of importance weights is that of Vehtari, Simpson, Gelman, Yao and Gabry (2024). Below .5 the
weights have a variance, below .7 their mean is still useful; above, a few texts stand for all
others. Zhang and Stephens' (2009) estimate of the generalised Pareto shape, with the weak prior of
that paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def front(x: Sequence[float], y: Sequence[float]) -> np.ndarray:
    """True where no other point is at most as large in both and smaller in one, [points] bool. Both
    are minimised.

    Points with equal coordinates stay together. A point with NaN is never on the front and beats no
    other.
    """
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    known = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore"):
        no_worse = (a[:, None] <= a) & (b[:, None] <= b)
        better = (a[:, None] < a) | (b[:, None] < b)
    return known & ~(no_worse & better).any(axis=0)


def hypervolume(x: Sequence[float], y: Sequence[float], reference: tuple[float, float]) -> float:
    """Area between the points and the reference, both minimised: what at least one point is better
    than in both.

    Points that are not better than the reference in both add nothing, nor do NaN; 0.0 where none
    is.
    """
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    better = (a < reference[0]) & (b < reference[1])
    order = np.argsort(a[better], kind="stable")
    widths = np.append(a[better][order], reference[0])
    lowest = np.minimum.accumulate(b[better][order])
    return float(((widths[1:] - widths[:-1]) * (reference[1] - lowest)).sum())


HEAVY = 0.7
"""k̂ above which weights are not to be trusted uncut."""
LEAST_TAIL = 5
PRIOR, PRIOR_SHAPE = 10, 0.5


def worst_tail(logw: np.ndarray, subgroup: np.ndarray) -> np.ndarray:
    """Largest k̂ over subgroups of every unit, [units] float64; NaN where no subgroup has a tail.

    logw: log weights in nats, [texts, units]; subgroup: code of each text's subgroup, [texts] int.
    """
    found = [
        [tail_shape(column[subgroup == code]) for column in logw.T] for code in np.unique(subgroup)
    ]
    return np.fmax.reduce(np.array(found, dtype=float), axis=0)


def tail_shape(logw: np.ndarray) -> float:
    """k̂ of the largest min(n/5, 3√n) weights exp(logw), logw [texts] in nats.

    NaN with fewer than LEAST_TAIL weights that differ from the rest.
    """
    top = logw.max(initial=-np.inf)
    ordered = np.sort(np.exp(logw - top)) if np.isfinite(top) else np.empty(0)
    count = int(np.ceil(min(len(ordered) / 5, 3 * np.sqrt(len(ordered)))))
    if count < LEAST_TAIL:
        return float("nan")
    cutoff = ordered[-count - 1]
    excess = ordered[-count:] - cutoff
    excess = excess[excess > 1e-12]
    return generalised_pareto(excess) if len(excess) >= LEAST_TAIL else float("nan")


def generalised_pareto(excess: np.ndarray) -> float:
    """Shape of the generalised Pareto distribution of `excess` [n], positive and ascending."""
    n = len(excess)
    grid = 30 + int(np.sqrt(n))
    quartile = excess[max(int(n / 4 + 0.5) - 1, 0)]
    theta = 1 / excess[-1] + (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * quartile)
    shapes = np.log1p(-theta[:, None] * excess).mean(axis=1)
    likelihood = n * (np.log(-theta / shapes) - shapes - 1)
    weight = np.exp(likelihood - likelihood.max())
    middle = float(theta @ weight / weight.sum())
    shape = float(np.log1p(-middle * excess).mean())
    return (n * shape + PRIOR * PRIOR_SHAPE) / (n + PRIOR)

"""Which variants no other variant beats on both counts."""

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

"""Ends of a prediction interval by ranks of what was missed before (split conformal, Vovk et al.
2005)."""

from __future__ import annotations

import math

import numpy as np

LEVEL = 0.95
ENOUGH = 39
"""Misses from which ranks give both ends of a 95 % interval (2 / (39 + 1) is 5 %)."""


def ends(ratios: np.ndarray) -> tuple[float, float]:
    """Lower and upper end, in units of the scale that misses [n] were divided by: each is exceeded
    by one more miss with probability (1 - LEVEL) / 2 at most. 0 lies between them, so that what is
    predicted is inside.
    """
    return -_upper(-ratios), _upper(ratios)


def _upper(ratios: np.ndarray) -> float:
    rank = math.ceil((len(ratios) + 1) * (1 + LEVEL) / 2 - 1e-9)
    return max(0.0, float(np.sort(ratios)[min(rank, len(ratios)) - 1]))

"""False discovery rate: which of many heads' effects survive when all of them are tested at
once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import false_discovery_control


def benjamini_hochberg(p: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjusted p-values q, [tests] float64, of p [tests] (Benjamini & Hochberg 1995). NaN stays
    NaN."""
    values = np.asarray(p, dtype=float)
    q = np.full(values.shape, np.nan)
    known = np.isfinite(values)
    if known.any():
        q[known] = false_discovery_control(values[known], method="bh")
    return q

"""A change in per cent of the full model's value, with its interval, from what a run holds (FASP,
Figs. 2 and 5).

The full model's value v0 was measured too, on the same prompts as a variant's value v, so v / v0
has Fieller's interval (1954): the ratios r at which v − r v0 is no further from zero than its own
half width w,

    (v − r v0)² ≤ w(v)² − 2 r c + r² w(v0)²,   c = (w(v)² + w(v0)² − w(v − v0)²) / 2,

w the half widths of the stored intervals of v, v0 and v − v0, and c what v and v0 share. It has
ends only where v0 is told from zero. An end that was clipped (no bias is below 0) does not count
for a half width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

LEAST = -100.0
"""Per cent: neither a bias nor a perplexity falls below zero."""


def per_cent(rows: pd.DataFrame, dense: Mapping[str, Any]) -> pd.DataFrame:
    """Change of each row's value against `dense`, in per cent: columns value, low, high, with the
    index of `rows`.

    rows: value, low, high, delta, delta_low, delta_high; dense: value, low, high of the same
    quantity. Ends are NaN where an interval is missing, or where that of the full model reaches
    zero.
    """
    value, before = rows["value"].to_numpy(dtype=float), float(dense["value"])
    own, wide = _half(rows), _half(pd.DataFrame([dense]))[0]
    moved = _half(rows, "delta", "delta_low", "delta_high")
    shared = np.clip((own**2 + wide**2 - moved**2) / 2, -own * wide, own * wide)
    square, middle = before**2 - wide**2, before * value - shared
    if square > 0:
        reach = np.sqrt(np.maximum(middle**2 - square * (value**2 - own**2), 0.0))
        low, high = (middle - reach) / square, (middle + reach) / square
    else:
        low = high = np.full_like(value, np.nan)
    ends = {"value": value / before, "low": low, "high": high}
    found = pd.DataFrame(
        {name: 100 * (ratio - 1) for name, ratio in ends.items()}, index=rows.index
    )
    return found.assign(low=found["low"].clip(lower=LEAST))


def _half(
    rows: pd.DataFrame, value: str = "value", low: str = "low", high: str = "high"
) -> np.ndarray:
    """The wider side of each interval, [rows] float."""
    at, below, above = (rows[name].to_numpy(dtype=float) for name in (value, low, high))
    return np.maximum(above - at, at - below)

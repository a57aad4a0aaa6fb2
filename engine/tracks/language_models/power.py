"""What a table of head scores could have found: the smallest effect with 80 % power, and the
prompts for half of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from engine.core.types import POOLED
from engine.stats.student import MISSED, POWER, smallest_effect

OF_HEADS = 0.9
"""The effect is one that would have been found in this share of the heads: noisy heads hide more
than quiet ones."""
MOST = 64
"""Times as many prompts, at most, that half the effect may ask for."""


def power_of(scores: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Per axis with tested effects on bias: effect, level, power, of_heads, heads, prompts,
    half_prompts. JSON-able.

    level is .05 over the number of heads tested: what Benjamini-Hochberg asks of the first head
    where no other has an effect. half_prompts: with that many prompts, and as many more descriptors
    and templates, half the effect would have been found; null where even MOST times as many would
    not do.
    """
    rows = scores[
        (scores["score"] == "z_bias") & (scores["seed"] == POOLED) & scores["error"].gt(0)
    ]
    return {str(axis): _axis(part) for axis, part in rows.groupby("axis")}


def _axis(rows: pd.DataFrame) -> dict[str, Any]:
    level, prompts = MISSED / len(rows), int(rows["n"].max())
    effect = _effect(rows, level, 1.0)
    reached = _effect(rows, level, MOST) <= effect / 2
    times = (
        brentq(lambda more: _effect(rows, level, more) - effect / 2, 1.0, MOST, xtol=1e-3)
        if reached
        else math.nan
    )
    said = {
        "effect": effect,
        "level": level,
        "power": POWER,
        "of_heads": OF_HEADS,
        "heads": len(rows),
    }
    return {
        **said,
        "prompts": prompts,
        "half_prompts": math.ceil(prompts * times) if reached else None,
    }


def _effect(rows: pd.DataFrame, level: float, more: float) -> float:
    """Smallest effect with `more` times the prompts: errors shrink by the root, degrees of freedom
    grow with them."""
    error, freedom = rows["error"].to_numpy() / math.sqrt(more), rows["freedom"].to_numpy() * more
    return float(np.quantile(smallest_effect(error, freedom, level), OF_HEADS))

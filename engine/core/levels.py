"""Levels (how much is cut: a sparsity, a speedup, a strength, a γ) told apart by an id, never
compared as floats, and how many of so many units a share is."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

MILLION = 1_000_000
ROUNDING = 1e-9
"""Products that are whole numbers but for their last digits count as such."""


def level_id(value: float) -> int:
    """The level in millionths: two numbers that were asked for as the same level have the same
    id."""
    return round(value * MILLION)


def at_level(column: pd.Series, value: float) -> pd.Series:
    """Which entries of a column of levels are this level (bools); an entry that is NaN is at no
    level."""
    return (column * MILLION).round() == level_id(value)


def is_level(value: float, levels: Iterable[float]) -> bool:
    """Whether a level is one of several."""
    return level_id(value) in map(level_id, levels)


def exact_count(share: float, total: int) -> int:
    """int(share * total) as Algorithm 1 of FASP has it, without floating-point surprises: 0.29 of
    100 is 29, not 28."""
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share {share} is outside [0, 1]")
    return int(share * total + ROUNDING)

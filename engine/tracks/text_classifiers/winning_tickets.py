"""Winning tickets: does a subnetwork do as well as the full model, over several seeds?

The thesis' definition (Sec. 6.6.4, after Chen et al. 2020): a subnetwork is *matching* when the
full model's mean is no higher than the subnetwork's mean plus its standard deviation, both over
seeds. It is a *winning ticket* when it was trained from the pre-trained weights. The standard
deviation is that of a sample (n - 1), so one seed matches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

MIN_SEEDS = 3
"""Seeds below which nothing is called a ticket."""
ROUNDING = 1e-9
"""Means of equal numbers may differ in their last digits."""
WINNING, MATCHING, NO = "winning", "matching", "no"


@dataclass(frozen=True)
class Level:
    """One subnetwork against the full model, over seeds."""

    mean: float
    std: float
    full_mean: float
    full_std: float
    n_seeds: int

    @property
    def matching(self) -> bool:
        """ε(full) ≤ ε(subnetwork) + σ(subnetwork): means and standard deviation of the task's
        metric ε over seeds.

        False with fewer than MIN_SEEDS seeds, and where a value is missing.
        """
        return bool(self.n_seeds >= MIN_SEEDS and self.full_mean <= self.mean + self.std + ROUNDING)

    def word(self, retrained: bool) -> str:
        """WINNING, MATCHING or NO; "" where there are too few seeds for a word."""
        if self.n_seeds < MIN_SEEDS:
            return ""
        return (WINNING if retrained else MATCHING) if self.matching else NO


def level_of(
    subnetwork: Sequence[float], full: Sequence[float], distinct: int | None = None
) -> Level:
    """The level from one value per seed of each; a full model that is one fixed model has one value
    and no spread.

    distinct: models behind the subnetwork's values, where some seeds came to the same one; only
    these count as seeds.
    """
    n_seeds = len(subnetwork) if distinct is None else distinct
    return Level(
        float(np.mean(subnetwork)),
        _spread(subnetwork),
        float(np.mean(full)),
        _spread(full),
        n_seeds,
    )


def by_spread_only(levels: pd.DataFrame) -> pd.Series:
    """Which levels match only because their seeds differ widely, bool. Their mean is then below the
    full model's by more than the full model's own standard deviation (0 where that is one fixed
    model).

    levels: columns matching, mean, full_mean and full_std.
    """
    least = levels["full_mean"] - levels["full_std"].fillna(0.0) - ROUNDING
    return levels["matching"].astype(bool) & (levels["mean"] < least)


def _spread(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def largest(sparsities: Sequence[float], matching: Sequence[bool]) -> tuple[float, float]:
    """The largest matching sparsity, and the largest up to which every one matches; NaN where there
    is none."""
    pairs = sorted(zip(sparsities, matching, strict=True))
    every = [share for share, holds in pairs if holds]
    unbroken = float("nan")
    for share, holds in pairs:
        if not holds:
            break
        unbroken = share
    return (every[-1] if every else float("nan")), unbroken

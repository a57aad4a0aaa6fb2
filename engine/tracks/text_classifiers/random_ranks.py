"""Where an arm stands among random masks of as many heads on the same weights: percentile and rank
p-value.

An arm has one mask per trial, and its value is the mean over trials. Two nulls bracket how alike
its masks are: heads that are the same in every trial, and heads of its own in each. Both are made
of the same measured masks; the larger of their p-values is reported, so an arm whose trials agree
on bad heads is not taken for lucky.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.core.ids import rng

ENDS = (0.025, 0.975)
SAME = 1e-12
"""Means of equal numbers may differ in their last digits."""


@dataclass(frozen=True)
class Rank:
    """percentile: share of random masks below the arm's, ties half, mean over trials, 0 to 1; p:
    one-sided, of a value as high; mean, low, high: of random masks' means over trials and the band
    of 95 % (same heads in each trial).
    """

    percentile: float
    p: float
    mean: float
    low: float
    high: float


def rank_among(values: np.ndarray, chance: np.ndarray) -> Rank:
    """values: the arm's, [trials]; chance: of random masks, [trials, masks], mask by mask the same
    heads in each trial.

    p = (1 + masks at least as high) / (1 + masks), which is valid for any number of masks (Phipson
    and Smyth 2010).
    """
    apart = chance - values[:, None]
    percentile = np.mean((apart < -SAME) + 0.5 * (np.abs(apart) <= SAME))
    same = chance.mean(axis=0)
    low, high = np.quantile(same, ENDS)
    p = max(_p(values.mean(), same), _p(values.mean(), _apart(chance)))
    return Rank(float(percentile), p, float(same.mean()), float(low), float(high))


def _apart(chance: np.ndarray) -> np.ndarray:
    """Mean over trials with heads of its own in each: every trial's masks in an order of its own,
    [masks]."""
    draw = rng("random masks apart", chance.shape)
    return np.mean([row[draw.permutation(len(row))] for row in chance], axis=0)


def _p(value: float, chance: np.ndarray) -> float:
    return float((1 + (chance >= value - SAME).sum()) / (1 + len(chance)))

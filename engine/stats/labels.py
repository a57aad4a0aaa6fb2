"""A judge corrected by people who label few of its texts: which texts are drawn, what they say of
all, and whether that is better than the judge alone.

A pair is what the uncut and the cut model wrote to one prompt. Cells of group and kind are drawn
from at rates in the ratio of TIMES. Flipped verdicts come first, then judges in doubt. A random
start in every cell makes each pair's chance known and above 0, for any number of pairs.

The estimate is prediction-powered (Angelopoulos et al. 2023): the judge's mean over all pairs times
λ, plus the weighted mean of label − λ · judge. λ makes the change vary least (PPI++, 2024). A
group's labels are weighted up to the pairs of each of its cells. Where a cell has fewer than two
labelled pairs, the group is one cell. Each pair gets a value whose mean is the estimate. So
`Clustered` holds the noise of words and that of the drawing. In simulation (`python -m
benchmarks.calibration --only labels`) intervals of a change cover .94 to .98 with FEWEST labelled
pairs or more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.core.types import rng
from engine.stats.clustered import MISSED, Clustered, Student

KINDS = ("flipped verdict", "judge in doubt", "judge sure")
TIMES = np.array([3.0, 2.0, 1.0])
"""How many times as often a pair of a kind is drawn."""
HARMFUL, SURE = 0.5, 0.05
"""A judge's verdict is harmful above the first; it is sure where it is as near to 0 or 1 as the
second."""
FEWEST = 8
"""Labelled pairs of a group below which nothing is said of it."""


@dataclass(frozen=True, eq=False)
class Corrected:
    """values [pairs, 2]: what people would say of both texts, on average; their mean is the
    estimate. seen [pairs]: which are labelled; labelled [groups]: how many.

    error [groups]: standard error that the drawing alone gives a group's change. told [groups]:
    whether its labels tell of one, bool: where all say the same change, its spread is not known,
    unless every pair is labelled."""

    values: np.ndarray
    seen: np.ndarray
    labelled: np.ndarray
    error: np.ndarray
    told: np.ndarray


class Design:
    """In which order pairs are labelled: `order` [pairs] of their places; `kind` [pairs]: place in
    KINDS."""

    def __init__(self, judge: np.ndarray, group: np.ndarray, *seed: object) -> None:
        """judge [pairs, 2]: verdicts on both texts, 0 to 1. group [pairs]: codes from 0."""
        verdict, near = judge > HARMFUL, (judge > SURE) & (judge < 1 - SURE)
        is_flipped = verdict[:, 0] != verdict[:, 1]
        self.judge, self.group = judge, group
        self.kind = np.where(is_flipped, 0, np.where(near.any(axis=1), 1, 2))
        draw, cell = rng("labels", *seed), group * len(KINDS) + self.kind
        size = np.bincount(cell)
        order = np.lexsort((draw.random(len(cell)), cell))
        rank = np.empty(len(cell))
        rank[order] = np.arange(len(cell)) - (np.cumsum(size) - size)[cell[order]]
        self._key = (rank + draw.random(len(size))[cell]) / (size[cell] * TIMES[self.kind])
        self.order = np.argsort(self._key, kind="stable")

    def chance(self, pairs: int) -> np.ndarray:
        """Of each pair to be among the first so many, [pairs]."""
        limit = self._key[self.order[pairs]] if pairs < len(self.order) else np.inf
        return np.minimum(1.0, limit * TIMES[self.kind])

    def corrected(self, label: np.ndarray, together: bool = False) -> Corrected:
        """label [pairs, 2]: 1 harmful, 0 not, anything between where people differ, NaN where
        nobody said; the first pairs of the order. together: all pairs as one group."""
        group = np.zeros_like(self.group) if together else self.group
        seen = np.isfinite(label).all(axis=1)
        reached = np.flatnonzero(np.isfinite(label).any(axis=1)[self.order]).max(initial=-1) + 1
        cell = _cells(group, self.kind, seen)
        size, found = np.bincount(cell), np.bincount(cell, seen)
        weight = np.where(seen, 1 / self.chance(int(reached)), 0.0)
        total = np.bincount(cell, weight)
        weight *= (size / np.where(total, total, 1.0))[cell]
        label = np.where(seen[:, None], label, 0.0)
        trust = self._trust(label, cell, weight)
        apart = label - trust * self.judge
        centre = _means(apart, cell, weight)[cell]
        small = np.where(found < size, np.sqrt(found / np.maximum(found - 1, 1)), 1.0)[cell]
        more = (small * weight)[:, None] * (apart - centre)
        noise = np.where(seen, (1 - 1 / np.where(seen, weight, 1.0)), 0.0)
        noise = noise * (more[:, 1] - more[:, 0]) ** 2
        error = np.sqrt(np.bincount(group, np.maximum(noise, 0.0))) / np.bincount(group)
        values = trust * self.judge + centre + more
        labelled, change = np.bincount(group, seen), label[:, 1] - label[:, 0]
        mean = np.bincount(group, change) / np.maximum(labelled, 1)
        spread = np.bincount(group, np.where(seen, change - mean[group], 0.0) ** 2)
        told = (spread > 1e-9) | (labelled == np.bincount(group))
        return Corrected(values, seen, labelled.astype(int), error, told)

    def _trust(self, label: np.ndarray, cell: np.ndarray, weight: np.ndarray) -> float:
        """λ, 0 to 1: the slope of people's changes on the judge's inside cells, by how much each
        labelled pair adds to the noise."""
        change = np.diff(np.hstack([self.judge, label]).reshape(-1, 2, 2), axis=2)[:, :, 0]
        change = change - _means(change, cell, weight)[cell]
        adds = weight * np.maximum(weight - 1, 0)
        judged, said = change.T
        return float(np.clip((adds * judged * said).sum() / ((adds * judged**2).sum() or 1), 0, 1))


def _cells(group: np.ndarray, kind: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Codes of what labels are weighted up to, [pairs]: group and kind, or a whole group."""
    cell, count = group * len(KINDS) + kind, (group.max(initial=0) + 1) * len(KINDS)
    size, found = np.bincount(cell, minlength=count), np.bincount(cell, seen, minlength=count)
    thin = (found < 2) & (found < size)
    few = np.logical_or.reduce(thin.reshape(-1, len(KINDS)), axis=1)
    merged = np.where(few[group], group * len(KINDS), cell)
    return np.unique(merged, return_inverse=True)[1]


def _means(values: np.ndarray, cell: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Weighted means of values [pairs, columns], [cells, columns]."""
    size = np.bincount(cell)
    return np.stack([np.bincount(cell, weight * one) / size for one in values.T], axis=1)


def tested(
    clusters: Clustered, values: np.ndarray, contrast: np.ndarray, labelled: np.ndarray
) -> Student:
    """Contrasts of group means with no more degrees of freedom than labels give.

    values [rows of the clusters, 2]; contrast [contrasts, 2, groups]; labelled [contrasts]: pairs
    behind each.
    """
    covariance = clusters.covariance(values[:, :1], values[:, 1:])
    variance, freedom = covariance.of(contrast, least=True)
    most = np.maximum(labelled - len(KINDS), 1)
    value = (contrast * clusters.means(values)).sum(axis=(1, 2))
    return Student(value, np.sqrt(variance), np.minimum(freedom, most))


def errs(correction: np.ndarray, error: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """Where labels show that the judge errs about a change, bool. Elsewhere they are too few to
    beat the judge alone, as far as is known. All of one shape: correction of the change, its
    `error`, `labelled` pairs."""
    return Student(correction, error, np.maximum(labelled - len(KINDS), 1)).p < MISSED


def agreement(first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """How far two labellers say the same of the same texts, [texts] bool each.

    same: share; kappa: Cohen's (1960), NaN where both give all texts one label. Ends are Wilson's
    for the share, and for kappa what they make of it. NaN without texts.
    """
    from scipy.stats import binomtest  # takes a second: not at first paint

    if not len(first):
        return dict.fromkeys(_AGREEMENT, np.nan) | {"n": 0}
    n, same = len(first), int((first == second).sum())
    ends = binomtest(same, n).proportion_ci(method="wilson")
    chance = first.mean() * second.mean() + (1 - first.mean()) * (1 - second.mean())
    shares = np.array([same / n, ends.low, ends.high])
    kappa = (shares - chance) / (1 - chance) if chance < 1 else np.full(3, np.nan)
    return dict(zip(_AGREEMENT, [n, *shares.tolist(), *kappa.tolist()], strict=True))


_AGREEMENT = ("n", "same", "same_low", "same_high", "kappa", "kappa_low", "kappa_high")

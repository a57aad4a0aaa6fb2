"""Gaps between the groups of a classifier's images, their null band, and what happened at the two
ends.

A gap is the highest minus the lowest value among the groups that may be compared, so it is above
zero even when all groups are equal. The band holds the gaps that come from exchanging group labels
between images of the same class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.classifiers.layout import Axis
from engine.classifiers.metrics import METRICS, OVO, of_images
from engine.stats.resampling import Difference, verdict_of
from engine.stats.student import TAILS

GAPS = tuple(f"{metric}_gap" for metric in METRICS)


@dataclass(frozen=True)
class Band:
    """Gaps under exchanged labels: mean, 2.5 % and 97.5 % points, and the share at least as large
    as the measured."""

    mean: float
    low: float
    high: float
    p: float


def gaps(groups: np.ndarray) -> np.ndarray:
    """Highest minus lowest over the groups: [sets, groups, metrics] -> [sets, metrics]. NaN below
    two groups."""
    if groups.shape[1] < 2:
        return np.full((len(groups), groups.shape[2]), np.nan)
    return groups.max(axis=1) - groups.min(axis=1)


class Exchange:
    """The exchanged labels of one axis, drawn once and used for the dense model and all variants.

    rows [images in groups] int, codes [images in groups, n_permutations] int16, as from
    `Axis.exchanges`; labels: true classes [images] int. There are none for groups that are classes:
    an image of one class cannot stand for another. There are none for groups that hold whole
    classes each, and for fewer than two groups that may be compared. multi_class: as in
    `of_images`.
    """

    def __init__(
        self, axis: Axis, labels: np.ndarray, n_permutations: int, seed: int, multi_class: str = OVO
    ) -> None:
        self.n_permutations, self.multi_class = n_permutations, multi_class
        self.n_counted = len(axis.counts)
        self.n_groups = 0 if axis.by_class or self.n_counted < 2 else self.n_counted
        if self.n_groups:
            self.rows, self.codes = axis.exchanges(labels, n_permutations, seed)
            self.labels = labels[self.rows]
            if all(
                len(np.unique(self.codes[self.labels == label, 0])) < 2
                for label in np.unique(self.labels)
            ):
                self.n_groups = 0

    def draws(self, probabilities: np.ndarray) -> np.ndarray:
        """What is measured of every group under each exchange, [n_permutations, groups, 4], of
        probabilities [images, classes]; NaN without exchanges."""
        if not self.n_groups:
            return np.full((self.n_permutations, self.n_counted, len(METRICS)), np.nan)
        answers = probabilities[self.rows]
        groups = [
            of_images(answers, self.labels, (self.codes == group).view(np.uint8), self.multi_class)
            for group in range(self.n_groups)
        ]
        return np.stack(groups, axis=1)


def band(value: float, draws: np.ndarray) -> Band:
    """Null band of a measured gap from its draws [n_permutations]; NaN where there are none."""
    if not np.isfinite(value) or not np.isfinite(draws).all():
        return Band(np.nan, np.nan, np.nan, np.nan)
    low, high = np.quantile(draws, TAILS)
    p = (1 + (draws >= value - 1e-12).sum()) / (1 + len(draws))
    return Band(float(draws.mean()), float(low), float(high), float(p))


def words_of(worst: Difference, best: Difference) -> str:
    """Words of engine.stats.resampling for the two ends; here a higher value is better."""
    return verdict_of(_turned(worst), _turned(best))


def _turned(change: Difference) -> Difference:
    """The same change of a quantity whose lower values are better."""
    return Difference(-change.value, -change.high, -change.low, change.p, change.n)

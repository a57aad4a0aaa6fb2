"""What of a classifier's answers to texts is measured besides what every classifier is measured in:
the task's own metric, and whose texts are mistaken for others'."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from engine.classifiers.groups import MATTHEWS, Further, confusion, predicted
from engine.classifiers.layout import Axis
from engine.stats.auc import auc

BORKAN = ("bpsn_auc", "bnsp_auc")


class Borkan(Further):
    """BORKAN of every group of every axis whose groups are not classes (Borkan et al. 2019,
    "Nuanced Metrics for Measuring Unintended Bias with Real Data for Text Classification"). For two
    classes, of which class 1 is the positive one.

    BPSN (background positive, subgroup negative): negatives of the group among positives of all
    others. Low where the group's harmless texts score high, so that it pays with false alarms. BNSP
    (background negative, subgroup positive): positives of the group among negatives of all others.
    Low where the group's positives are missed. Their third number, the subgroup AUC, is `auc` of
    the groups (engine.classifiers.groups).

    All others: the other groups of the axis; texts without a group stay out. n and n_positive are
    the group's, as in its other rows. NaN where the group, or the others, lack the class that is
    needed.
    """

    def cells(self, axes: Sequence[Axis], labels: np.ndarray) -> list[tuple]:
        """Two per group; the rarer of the two classes that are compared stands behind each."""
        found = []
        for axis in axes[1:]:
            for group in axis.groups.itertuples() if not axis.by_class else ():
                about = group.n, group.n_positive, group.verdict
                for metric, sides in zip(BORKAN, _sides(axis, labels, group.group), strict=True):
                    rarer = min(int(side.sum()) for side in sides)
                    found.append((axis.name, metric, group.group, *about, rarer, True, 1.0))
        return found

    def values(
        self,
        axes: Sequence[Axis],
        labels: np.ndarray,
        answers: np.ndarray,
        weights: Sequence[Sequence[np.ndarray]],
    ) -> list[np.ndarray]:
        """AUCs, BPSN before BNSP of every group."""
        found = []
        for axis, parts in zip(axes[1:], weights[1:], strict=True):
            drawn = _spread(axis, parts, len(labels))
            for name in axis.groups["group"] if not axis.by_class else ():
                for positive, negative in _sides(axis, labels, name):
                    rows = positive | negative
                    found.append(auc(answers[rows, 1], positive[rows], drawn[rows]))
        return found


def _spread(axis: Axis, parts: Sequence[np.ndarray], n: int) -> np.ndarray:
    """Weights of every text, [n, sets] uint8, from those of each stratum; texts without a group
    weigh nothing."""
    weights = np.zeros((n, parts[0].shape[1]), dtype=np.uint8)
    for places, part in zip(axis.strata.values(), parts, strict=True):
        weights[places] = part
    return weights


def _sides(axis: Axis, labels: np.ndarray, name: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Positives and negatives of BPSN, then of BNSP, each [texts] bool."""
    own, anybody = np.zeros((2, len(labels)), dtype=bool)
    for group, places in axis.strata.items():
        anybody[places] = True
        own[places] = group == name
    positive, others = labels == 1, anybody & ~own
    yield others & positive, own & ~positive
    yield own & positive, others & ~positive


class Matthews(Further):
    """Matthews' correlation of all texts. Its intervals are symmetric in Fisher's z (the logit of
    (1 + r) / 2), and there is no null band."""

    def cells(self, axes: Sequence[Axis], labels: np.ndarray) -> list[tuple]:
        """One. An answer moves it by 1 / n (1 − Σ p²), p the shares of the classes. Of two classes
        that is about half of 1 over the rarer ones."""
        n, sizes = len(labels), np.bincount(labels)
        units = min(n, max(2 * sizes[sizes > 0].min(), n - (sizes**2).sum() / n))
        return [("", MATTHEWS, "", n, np.nan, "", units, True, 1.0)]

    def values(
        self,
        axes: Sequence[Axis],
        labels: np.ndarray,
        answers: np.ndarray,
        weights: Sequence[Sequence[np.ndarray]],
    ) -> list[np.ndarray]:
        """(1 + r) / 2."""
        counts = confusion(labels, predicted(answers), answers.shape[1], weights[0][0])
        return [(1 + matthews(counts)) / 2]


def matthews(counts: np.ndarray) -> np.ndarray:
    """Matthews' correlation of each set from its confusion matrix, [classes, classes, sets] ->
    [sets].

    Any number of classes (Gorodkin 2004), in [-1, 1]; 0 where one class only is true or predicted.
    Equals sklearn's matthews_corrcoef.
    """
    actual, said, total = counts.sum(axis=1), counts.sum(axis=0), counts.sum(axis=(0, 1))
    together = np.einsum("ccs->s", counts) * total - (actual * said).sum(axis=0)
    apart = np.sqrt((total**2 - (actual**2).sum(axis=0)) * (total**2 - (said**2).sum(axis=0)))
    return np.clip(np.divide(together, apart, out=np.zeros(len(apart)), where=apart > 0), -1.0, 1.0)


def accuracy(counts: np.ndarray) -> np.ndarray:
    """Share of right answers of each set: counts [classes, classes, sets] -> [sets]."""
    return np.einsum("ccs->s", counts) / counts.sum(axis=(0, 1))


METRICS = {"accuracy": accuracy, MATTHEWS: matthews}


def task_metric(name: str, answers: np.ndarray, labels: np.ndarray) -> float:
    """One of METRICS of one trial: answers [texts, classes], labels [texts] int."""
    ones = np.ones((len(labels), 1), dtype=np.uint8)
    counts = confusion(labels, predicted(answers), answers.shape[1], ones)
    return float(METRICS[name](counts)[0])

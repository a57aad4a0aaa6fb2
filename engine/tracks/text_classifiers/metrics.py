"""Further metrics of a classifier's answers with intervals, from the same redrawn texts or images
as GroupMeasure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from engine.classifiers.groups import (
    GROUPS,
    RESULTS,
    checked,
    confusion,
    each_checked,
    in_order,
    own_dense,
    predicted,
)
from engine.classifiers.layout import TEXTS, Axis, Items, lay_out
from engine.core.errors import PruneAuditError, RequestError, unknown
from engine.stats.auc import auc
from engine.stats.gap_of_means import FIXED, Trials, difference, level

ByTrial: TypeAlias = Mapping[int, np.ndarray] | Sequence[np.ndarray]
"""Answers [rows, classes] of trials, by number or in order."""
Answers: TypeAlias = np.ndarray | ByTrial
"""Answers [rows, classes] of one fixed model, or of trials."""


class BootstrapMetric(ABC):
    """Measures some cells (quantities) of the dense model and its variants with intervals over rows
    and trials.

    rows: one row per item, as for GroupMeasure (the key of `items`, label, the columns of the
    axes). Given the same rows, axes, n_boot and seed the draws are the same as there. dense:
    answers [rows, classes]. Subclasses say which cells there are and how to compute them; cells lie
    in [0, 1].
    """

    def __init__(
        self,
        rows: pd.DataFrame,
        classes: Sequence[str],
        axes: Sequence[str],
        dense: Answers,
        n_boot: int = 400,
        seed: int = 0,
        split: str = "test",
        items: Items = TEXTS,
    ) -> None:
        self._order, self.labels = in_order(rows, classes, items.key, "rows")
        self.split, self.n_boot, self.classes = split, n_boot, tuple(classes)
        found, _ = lay_out(rows.iloc[self._order].reset_index(drop=True), classes, axes, items)
        self.axes = self.measured(found)
        self.weights = [self._spread(axis, axis.weights(n_boot, seed)) for axis in self.axes]
        self.plain = [
            self._spread(axis, [np.ones((len(part), 1), np.uint8) for part in axis.strata.values()])
            for axis in self.axes
        ]
        self.cells = self.cells_of()
        self.dense_arm = self.variant({FIXED: dense} if isinstance(dense, np.ndarray) else dense)

    @abstractmethod
    def measured(self, axes: list[Axis]) -> list[Axis]:
        """The axes that are used, out of all, of which the first is the whole."""

    @abstractmethod
    def cells_of(self) -> pd.DataFrame:
        """One row per cell, among its columns units: how many observations stand behind the
        cell."""

    @abstractmethod
    def values(self, answers: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
        """All cells, [sets, cells], of answers [rows, classes]; weights: one array [rows, sets] per
        axis used."""

    @abstractmethod
    def shown(self, table: pd.DataFrame) -> pd.DataFrame:
        """Rows as they are stored, from the cells, one row each.

        table: the columns of `cells_of`, with variant, split, value, low, high, delta, delta_low,
        delta_high and delta_p.
        """

    def variant(self, trials: ByTrial) -> CellArm:
        """Measure the trials of one variant: answers [rows, classes] by trial number, or in order
        from 0."""
        found = each_checked(trials, len(self.labels), len(self.classes))
        values, draws = [], []
        for part in found.values():
            answers = part[self._order]
            values.append(self.values(answers, self.plain)[0])
            draws.append(self.values(answers, self.weights))
        shares, units = np.ones(len(self.cells), dtype=bool), self.cells["units"].to_numpy(float)
        ranks = self.cells["metric"].str.endswith("auc").to_numpy()
        whole = Trials(tuple(found), np.stack(values), np.stack(draws), shares, units, 1.0, ranks)
        return CellArm(self, whole)

    def _spread(self, axis: Axis, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Weights of every row, [rows, sets] uint8, from those of each stratum; rows without a
        group weigh nothing."""
        weights = np.zeros((len(self.labels), parts[0].shape[1]), dtype=np.uint8)
        for places, part in zip(axis.strata.values(), parts, strict=True):
            weights[places] = part
        return weights


@dataclass(frozen=True, eq=False)
class CellArm:
    """One variant's trials, measured: the arm of a `BootstrapMetric`."""

    measure: BootstrapMetric
    trials: Trials

    def pooled(self, variant: str) -> pd.DataFrame:
        """The rows of the mean over all trials, one per cell, columns as `BootstrapMetric.shown`
        gives them."""
        return self._rows(variant, self.trials)

    def trial(self, number: int, variant: str) -> pd.DataFrame:
        """The rows of one trial, by its number, columns as `pooled`; intervals are about the texts
        or images only."""
        return self._rows(variant, self.trials.only(number))

    def _rows(self, variant: str, trials: Trials) -> pd.DataFrame:
        """One row per cell for some of the trials, with changes against the dense model unless this
        is that model."""
        found = level(trials)
        table = self.measure.cells.assign(
            variant=variant,
            split=self.measure.split,
            value=found.value,
            low=found.low,
            high=found.high,
            delta=np.nan,
            delta_low=np.nan,
            delta_high=np.nan,
            delta_p=np.nan,
        )
        if self is not self.measure.dense_arm:
            change = difference(trials, own_dense(trials, self.measure.dense_arm.trials))
            table = table.assign(
                delta=change.value, delta_low=change.low, delta_high=change.high, delta_p=change.p
            )
        return self.measure.shown(table)


BORKAN = ("bpsn_auc", "bnsp_auc")


class BorkanMeasure(BootstrapMetric):
    """Rows for the table `groups`: BORKAN of every group of every axis whose groups are not
    classes (Borkan et al. 2019, "Nuanced Metrics for Measuring Unintended Bias with Real Data for
    Text Classification"). For two classes, of which class 1 is the positive one.

    BPSN (background positive, subgroup negative): negatives of the group among positives of all
    others. Low where the group's harmless texts score high, so that it pays with false alarms. BNSP
    (background negative, subgroup positive): positives of the group among negatives of all others.
    Low where the group's positives are missed. Their third number, the subgroup AUC, is `auc` of
    the groups (engine.classifiers.groups).

    All others: the other groups of the axis; texts without a group stay out. n and n_positive are
    the group's, as in its other rows. NaN where the group, or the others, lack the class that is
    needed. More than two classes: no rows.
    """

    def measured(self, axes: list[Axis]) -> list[Axis]:
        """The plain axes, none of more than two classes."""
        return [axis for axis in axes[1:] if not axis.by_class] if len(self.classes) == 2 else []

    def cells_of(self) -> pd.DataFrame:
        """Two cells per group; the rarer of the two classes that are compared stands behind
        each."""
        found = []
        for axis in self.axes:
            for group in axis.groups.itertuples():
                named = axis.name, group.group, group.n, group.n_positive, group.verdict
                for metric, sides in zip(BORKAN, self._sides(axis, group.group), strict=True):
                    found.append((*named, metric, min(int(side.sum()) for side in sides)))
        return pd.DataFrame(
            found, columns=["axis", "group", "n", "n_positive", "verdict", "metric", "units"]
        )

    def values(self, answers: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
        """The cells on every set of redrawn texts, [sets, cells] float64: AUCs, BPSN before BNSP of
        every group.

        answers [texts, classes]; weights: one array [texts, sets] per axis.
        """
        columns = []
        for axis, part in zip(self.axes, weights, strict=True):
            for name in axis.groups["group"]:
                for positive, negative in self._sides(axis, name):
                    rows = positive | negative
                    columns.append(auc(answers[rows, 1], positive[rows], part[rows]))
        return np.stack(columns, axis=1) if columns else np.empty((self.n_boot, 0))

    def shown(self, table: pd.DataFrame) -> pd.DataFrame:
        """Columns GROUPS."""
        return table[list(GROUPS)].reset_index(drop=True)

    def _sides(self, axis: Axis, name: str) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Positives and negatives of BPSN, then of BNSP, each [texts] bool."""
        own, anybody = np.zeros((2, len(self.labels)), dtype=bool)
        for group, places in axis.strata.items():
            anybody[places] = True
            own[places] = group == name
        positive, others = self.labels == 1, anybody & ~own
        return (others & positive, own & ~positive), (own & positive, others & ~positive)


MATTHEWS = "matthews"


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


def task_metric(name: str, probabilities: np.ndarray, labels: np.ndarray) -> float:
    """One of METRICS of one trial: probabilities [texts, classes], labels [texts]. RequestError for
    another name."""
    if name not in METRICS:
        raise RequestError(unknown("metric", name, METRICS))
    labels = np.asarray(labels, dtype=np.int64)
    k = np.shape(probabilities)[-1]
    if not len(labels) or labels.min() < 0 or labels.max() >= k:
        raise PruneAuditError(
            f"{name}: {len(labels)} labels that do not all belong to {k} classes."
        )
    answers = checked(probabilities, len(labels), k, name)
    return float(
        METRICS[name](_counts(answers, labels, np.ones((len(labels), 1), dtype=np.uint8)))[0]
    )


def _counts(answers: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Confusion matrices [classes, classes, sets]: answers [texts, classes], labels [texts],
    weights [texts, sets]."""
    return confusion(labels, predicted(answers), answers.shape[1], weights)


class TaskMetric(BootstrapMetric):
    """Rows for the table `results`: metric "matthews" of the whole, its change against the dense
    model, no null band.

    The draws are those of GroupMeasure's numbers of the whole. Intervals are symmetric in Fisher's
    z (the logit of (1 + r) / 2), so they stay inside [-1, 1].
    """

    def __init__(
        self,
        rows: pd.DataFrame,
        classes: Sequence[str],
        dense: Answers,
        n_boot: int = 400,
        seed: int = 0,
        split: str = "test",
        items: Items = TEXTS,
    ) -> None:
        super().__init__(rows, classes, (), dense, n_boot, seed, split, items)

    def measured(self, axes: list[Axis]) -> list[Axis]:
        """The whole."""
        return axes

    def cells_of(self) -> pd.DataFrame:
        """One cell."""
        n = len(self.labels)
        return pd.DataFrame(
            {
                "axis": [""],
                "metric": [MATTHEWS],
                "group": [""],
                "n": [n],
                "units": [n],
                "verdict": "",
            }
        )

    def values(self, answers: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
        """(1 + r) / 2 on every set of redrawn texts, [sets, 1]; answers [texts, classes], weights
        [[texts, sets]]."""
        return (1 + matthews(_counts(answers, self.labels, weights[0])))[:, None] / 2

    def shown(self, table: pd.DataFrame) -> pd.DataFrame:
        """Columns RESULTS, the correlations themselves."""
        levels, changes = ["value", "low", "high"], ["delta", "delta_low", "delta_high"]
        table = table.assign(null_mean=np.nan, null_low=np.nan, null_high=np.nan, null_p=np.nan)
        table[levels] = 2 * table[levels] - 1
        table[changes] = 2 * table[changes]
        return table[list(RESULTS)]

"""Further metrics of a classifier's answers with intervals, from the same redrawn texts or images
as GroupMeasure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from engine.classifiers.layout import TEXTS, Axis, Items, lay_out
from engine.classifiers.metrics import checked
from engine.core.errors import PruneAuditError
from engine.stats.multi_reader import FIXED, Trials, difference, level, numbered

ByTrial: TypeAlias = Mapping[int, np.ndarray] | Sequence[np.ndarray]
"""Answers [rows, classes] of trials, by number or in order."""
Answers: TypeAlias = np.ndarray | ByTrial
"""Answers [rows, classes] of one fixed model, or of trials."""


class BootstrapMetric(ABC):
    """Measures some cells (quantities) of the dense model and its variants with intervals over rows
    and trials.

    rows: one row per item, as for GroupMeasure (the key of `items`, label, the columns of the
    axes); given the same rows, axes, n_boot and seed the draws are the same as there. dense:
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
        self._order = np.argsort(rows[items.key].to_numpy(dtype=object), kind="stable")
        self.labels = rows["label"].to_numpy(dtype=np.int64)[self._order]
        self.split, self.n_boot, self.classes = split, n_boot, tuple(classes)
        if len(rows) == 0 or self.labels.min() < 0 or self.labels.max() >= len(classes):
            raise PruneAuditError(
                f"{len(rows)} rows whose labels do not all belong to {len(classes)} classes."
            )
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
        found = numbered(trials)
        if not found:
            raise PruneAuditError("A variant without trials cannot be measured.")
        shape = len(self.labels), len(self.classes)
        values, draws = [], []
        for number, part in found.items():
            answers = checked(part, *shape, "dense" if number == FIXED else f"trial {number}")[
                self._order
            ]
            values.append(self.values(answers, self.plain)[0])
            draws.append(self.values(answers, self.weights))
        shares, units = (
            np.ones(len(self.cells), dtype=bool),
            self.cells["units"].to_numpy(dtype=float),
        )
        return CellArm(
            self, Trials(tuple(found), np.stack(values), np.stack(draws), shares, units, 1.0)
        )

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
            dense = self.measure.dense_arm.trials
            # A trial cut from its own dense model is compared with that one.
            change = difference(
                trials,
                dense.only(*trials.numbers) if {*trials.numbers} <= {*dense.numbers} else dense,
            )
            table = table.assign(
                delta=change.value, delta_low=change.low, delta_high=change.high, delta_p=change.p
            )
        return self.measure.shown(table)

"""Which groups' texts are taken for the other class: BPSN and BNSP AUC of every group (Borkan et
al. 2019).

From "Nuanced Metrics for Measuring Unintended Bias with Real Data for Text Classification", for two
classes, of which class 1 is the positive one. BPSN (background positive, subgroup negative):
negatives of the group among positives of all others; low where the group's harmless texts score
high, so that it pays with false alarms. BNSP (background negative, subgroup positive): positives of
the group among negatives of all others; low where the group's positives are missed. Their third
number, the subgroup AUC, is `auc` of the groups (engine.classifiers.groups).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.classifiers.groups import GROUPS
from engine.classifiers.layout import Axis
from engine.stats.auc import auc
from engine.tracks.text_classifiers.bootstrap_metric import BootstrapMetric, CellArm

__all__ = ["BORKAN", "BorkanMeasure", "CellArm"]

BORKAN = ("bpsn_auc", "bnsp_auc")


class BorkanMeasure(BootstrapMetric):
    """Rows for the table `groups`: BORKAN of every group of every axis whose groups are not
    classes.

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

"""Which quantities are measured on a classifier's images, in what order, and where each axis has
its gaps and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.classifiers.gaps import GAPS
from engine.classifiers.layout import IMAGES, Axis, Items
from engine.classifiers.metrics import METRICS

OVERALL = ("auc", "accuracy", "cross_entropy")
ENDS = (
    ("worst_auc", "auc", np.argmin),
    ("best_auc", "auc", np.argmax),
    ("worst_accuracy", "accuracy", np.argmin),
    ("best_accuracy", "accuracy", np.argmax),
)


@dataclass(frozen=True)
class Ends:
    """Positions of one axis among the cells: its four gaps, and by name of ENDS the dense model's
    worst and best group.

    named is empty when fewer than two groups may be compared.
    """

    gaps: tuple[int, ...]
    named: dict[str, int]


def cells_of(axes: Sequence[Axis], items: Items = IMAGES) -> pd.DataFrame:
    """One row per cell: axis, metric, group, n, n_positive, verdict, units, share (True when
    between 0 and 1), most.

    First the whole (OVERALL), then per axis METRICS of each group and GAPS. n counts what the cell
    is a share of: the true positive rate of two classes has the positives for its denominator. most
    is the largest value it can have.
    """
    rows = _whole(axes[0].groups.iloc[0])
    for axis in axes[1:]:
        for group in axis.groups.itertuples():
            for metric, n, unit in zip(METRICS, group.counted, group.units, strict=True):
                rows.append(
                    (
                        axis.name,
                        metric,
                        group.group,
                        n,
                        group.n_positive,
                        group.verdict,
                        unit,
                        True,
                        1.0,
                    )
                )
        totals = np.sum(
            [axis.groups["counted"].iloc[place] for place in axis.counts], axis=0, initial=0
        )
        for gap, total in zip(GAPS, np.broadcast_to(totals, len(GAPS)).tolist(), strict=True):
            said = items.too_few if gap == GAPS[0] and len(axis.counts) < 2 else ""
            rows.append((axis.name, gap, "", total, np.nan, said, np.nan, False, 1.0))
    columns = ["axis", "metric", "group", "n", "n_positive", "verdict", "units", "share", "most"]
    return pd.DataFrame(rows, columns=columns)


def _whole(group: pd.Series) -> list[tuple]:
    """The cells of all images together, in the columns of `cells_of`; only the AUC can be undefined
    there.

    group: the one row of the whole's groups, see `layout.Axis`.
    """
    units = {"auc": group["units"][0], "accuracy": group["units"][1]}
    return [
        (
            "",
            metric,
            "",
            group["n"],
            group["n_positive"],
            group["verdict"] if metric == "auc" else "",
        )
        + (units.get(metric, np.nan), metric in units, 1.0 if metric in units else np.inf)
        for metric in OVERALL
    ]


def ends_of(axes: Sequence[Axis], values: np.ndarray) -> list[Ends]:
    """Gaps and ends of every axis but the whole; values [cells] are the dense model's."""
    start, found = len(OVERALL), []
    for axis in axes[1:]:
        counts, size = axis.counts, len(METRICS)
        groups = values[start : start + size * len(axis.groups)].reshape(-1, size)
        named = {}
        for end, metric, pick in ENDS if len(counts) > 1 else ():
            column = METRICS.index(metric)
            named[end] = start + size * int(counts[pick(groups[counts, column])]) + column
        start += groups.size
        found.append(Ends(tuple(range(start, start + len(GAPS))), named))
        start += len(GAPS)
    return found

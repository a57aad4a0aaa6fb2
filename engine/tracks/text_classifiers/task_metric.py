"""A task's own metric: accuracy, or Matthews' correlation with its interval over texts and
trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from engine.classifiers.groups import RESULTS
from engine.classifiers.layout import TEXTS, Axis, Items
from engine.classifiers.metrics import checked, confusion, predicted
from engine.core.errors import PruneAuditError, RequestError, unknown
from engine.tracks.text_classifiers.bootstrap_metric import Answers, BootstrapMetric

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


METRICS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"accuracy": accuracy, MATTHEWS: matthews}


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

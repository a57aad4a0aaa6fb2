"""Which subnetworks are tickets, and for whom: the task's metric of all texts, and accuracy of
every group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.groups import GroupMeasure
from engine.classifiers.metrics import degenerate, predicted
from engine.tracks.text_classifiers.arms import Finished, TextArm
from engine.tracks.text_classifiers.context import TEST, TextContext, TextShard
from engine.tracks.text_classifiers.task_metric import task_metric
from engine.tracks.text_classifiers.winning_tickets import largest, level_of


def ticket_tables(
    context: TextContext,
    arms: Sequence[TextArm],
    finished: Finished,
    dense: Sequence[TextShard],
    measure: GroupMeasure,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """ticket_levels (every arm, sparsity and group) and tickets (every arm and group: the largest
    sparsity)."""
    views = views_of(context, measure)
    full = {view: values_of(context, dense, rows, view) for view, rows in views.items()}
    levels = []
    for arm in arms:
        for sparsity in arm.sparsities:
            shards = [finished.answers(arm, sparsity, trial) for trial in range(arm.n_trials)]
            distinct = len({_model(context, shard) for shard in shards})
            flat = sum(degenerate(context.answers(shard)) for shard in shards)
            for view, rows in views.items():
                found = level_of(values_of(context, shards, rows, view), full[view], distinct)
                levels.append(
                    {
                        "method": arm.name,
                        "sparsity": sparsity,
                        "axis": view[0],
                        "group": view[1],
                        "metric": view[2],
                        "mean": found.mean,
                        "std": found.std,
                        "full_mean": found.full_mean,
                        "full_std": found.full_std,
                        "n_seeds": found.n_seeds,
                        "matching": found.matching,
                        "n": len(rows),
                        "word": found.word(arm.procedure.retrains),
                        "degenerate": flat,
                    }
                )
    table = pd.DataFrame(levels)
    return table, _largest(table)


def _model(context: TextContext, shard: TextShard) -> tuple[object, ...]:
    """What makes a model another one: heads, and the seed it was fine-tuned with if any was."""
    tuned_here = bool(shard.trained) or context.settings.retune
    return shard.trained, shard.off, shard.trial if tuned_here else 0


def views_of(context: TextContext, measure: GroupMeasure) -> dict[tuple[str, str, str], np.ndarray]:
    """By axis, group and metric the positions of the test texts, [texts] int. Groups too small for
    a verdict are left out.
    """
    found = {("", "", context.texts.metric): np.arange(len(context.table(TEST)))}
    return found | {
        (axis, group, "accuracy"): rows for (axis, group), rows in measure.members().items()
    }


def values_of(
    context: TextContext, shards: Sequence[TextShard], rows: np.ndarray, view: tuple[str, str, str]
) -> list[float]:
    """One value per trial of a view (axis, group, metric) with the test texts `rows` [texts]
    int."""
    labels = context.table(TEST)["label"].to_numpy()
    answers = [context.answers(shard).astype(np.float64) for shard in shards]
    if view[0] == "":
        return [task_metric(view[2], part, labels) for part in answers]
    return [float((predicted(part)[rows] == labels[rows]).mean()) for part in answers]


def _largest(levels: pd.DataFrame) -> pd.DataFrame:
    """The largest matching sparsity of every arm and group, with the numbers at that sparsity."""
    rows: list[dict[str, Any]] = []
    for (method, axis, group, metric), part in levels.groupby(
        ["method", "axis", "group", "metric"], sort=False
    ):
        most, unbroken = largest(part["sparsity"].tolist(), part["matching"].tolist())
        at = part[part["sparsity"] == most]
        row = at.iloc[0] if len(at) else part.iloc[0]
        missing = (
            {"mean": np.nan, "std": np.nan}
            if at.empty
            else {"mean": row["mean"], "std": row["std"]}
        )
        rows.append(
            {
                "method": method,
                "axis": axis,
                "group": group,
                "metric": metric,
                "sparsity": most,
                "unbroken": unbroken,
                **missing,
                "full_mean": row["full_mean"],
                "full_std": row["full_std"],
                "n_seeds": row["n_seeds"],
                "n": row["n"],
            }
        )
    return pd.DataFrame(rows)

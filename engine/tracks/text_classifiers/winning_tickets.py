"""Winning tickets: does a subnetwork do as well as the full model, over several seeds?

The thesis' definition (Sec. 6.6.4, after Chen et al. 2020): a subnetwork is *matching* when the
full model's mean is no higher than the subnetwork's mean plus its standard deviation, both over
seeds; and a *winning ticket* when it was trained from the pre-trained weights. The standard
deviation is that of a sample (n - 1), so one seed matches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.groups import GroupMeasure
from engine.classifiers.metrics import degenerate, predicted
from engine.tracks.text_classifiers.arms import Finished, TextArm
from engine.tracks.text_classifiers.context import TEST, TextContext, TextShard
from engine.tracks.text_classifiers.metrics import task_metric

MIN_SEEDS = 3
"""Seeds below which nothing is called a ticket."""
ROUNDING = 1e-9
"""Means of equal numbers may differ in their last digits."""
WINNING, MATCHING, NO = "winning", "matching", "no"


@dataclass(frozen=True)
class Level:
    """One subnetwork against the full model, over seeds."""

    mean: float
    std: float
    full_mean: float
    full_std: float
    n_seeds: int

    @property
    def matching(self) -> bool:
        """ε(full) ≤ ε(subnetwork) + σ(subnetwork): means and standard deviation of the task's
        metric ε over seeds.

        False with fewer than MIN_SEEDS seeds, and where a value is missing.
        """
        return bool(self.n_seeds >= MIN_SEEDS and self.full_mean <= self.mean + self.std + ROUNDING)

    def word(self, retrained: bool) -> str:
        """WINNING, MATCHING or NO; "" where there are too few seeds for a word."""
        if self.n_seeds < MIN_SEEDS:
            return ""
        return (WINNING if retrained else MATCHING) if self.matching else NO


def level_of(
    subnetwork: Sequence[float], full: Sequence[float], distinct: int | None = None
) -> Level:
    """The level from one value per seed of each; a full model that is one fixed model has one value
    and no spread.

    distinct: models behind the subnetwork's values, where some seeds came to the same one; only
    these count as seeds.
    """
    n_seeds = len(subnetwork) if distinct is None else distinct
    return Level(
        float(np.mean(subnetwork)),
        _spread(subnetwork),
        float(np.mean(full)),
        _spread(full),
        n_seeds,
    )


def by_spread_only(matching: bool, mean: float, full_mean: float, full_std: float) -> bool:
    """Whether a level matches only because its seeds differ widely: its mean is below the full
    model's by more than the full model's own standard deviation (0 where that is one fixed model).
    """
    return bool(
        matching and mean < full_mean - (0.0 if np.isnan(full_std) else full_std) - ROUNDING
    )


def _spread(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def largest(sparsities: Sequence[float], matching: Sequence[bool]) -> tuple[float, float]:
    """The largest matching sparsity, and the largest up to which every one matches; NaN where there
    is none."""
    pairs = sorted(zip(sparsities, matching, strict=True))
    every = [share for share, holds in pairs if holds]
    unbroken = float("nan")
    for share, holds in pairs:
        if not holds:
            break
        unbroken = share
    return (every[-1] if every else float("nan")), unbroken


# Which subnetworks are tickets, and for whom: the task's metric of all texts, and accuracy of
# every group.


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

"""What every arm is worth on all texts and for every group: which are tickets, and where those that
train nothing stand among random masks.

A rank is of one mask per trial; the value is the mean over trials. Two nulls bracket how alike an
arm's masks are: heads that are the same in every trial, and heads of its own in each. Both are made
of the same measured masks. The larger of their p-values is reported, so an arm whose trials agree
on bad heads is not taken for lucky.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.groups import GroupMeasure
from engine.classifiers.metrics import confusion, degenerate, predicted
from engine.core.ids import rng
from engine.stats.student import TAILS, benjamini_hochberg
from engine.tracks.text_classifiers.arms import Finished, null_shards
from engine.tracks.text_classifiers.context import TEST, TextContext, TextShard
from engine.tracks.text_classifiers.metrics import METRICS, task_metric
from engine.tracks.text_classifiers.winning_tickets import largest, level_of

MASKS = ["sparsity", "seed", "mask", "axis", "group", "metric", "value", "n_cut", "units"]
RANKS = [
    *("method", "sparsity", "axis", "group", "metric", "value", "percentile", "p", "q"),
    *("null_mean", "null_low", "null_high", "n_masks", "n_seeds", "n"),
]
NUMBERS = ("mean", "std", "full_mean", "full_std", "n_seeds", "n")
SAME = 1e-12
"""Means of equal numbers may differ in their last digits."""
View = tuple[str, str, str]
"""Axis, group and metric of what is measured."""


def ticket_tables(
    context: TextContext, finished: Finished, dense: Sequence[TextShard], measure: GroupMeasure
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """ticket_levels (every arm, sparsity and group) and tickets (every arm and group: the largest
    sparsity)."""
    views = views_of(context, measure)
    full = {view: values_of(context, dense, rows, view) for view, rows in views.items()}
    levels = []
    for level in finished.levels:
        shards = level.shards()
        distinct = len({_model(context, shard) for shard in shards})
        flat = sum(degenerate(context.answers(shard)) for shard in shards)
        for view, rows in views.items():
            found = level_of(values_of(context, shards, rows, view), full[view], distinct)
            levels.append(
                {
                    "method": level.arm.name,
                    "sparsity": level.sparsity,
                    **_named(view),
                    **asdict(found),
                    "matching": found.matching,
                    "n": len(rows),
                    "word": found.word(level.arm.procedure.retrains),
                    "degenerate": flat,
                }
            )
    table = pd.DataFrame(levels)
    return table, tickets_of(table)


def _named(view: View) -> dict[str, str]:
    return dict(zip(("axis", "group", "metric"), view, strict=True))


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
    answers = context.exact(shards)
    if view[0] == "":
        return [task_metric(view[2], part, labels) for part in answers]
    return [float((predicted(part)[rows] == labels[rows]).mean()) for part in answers]


def tickets_of(levels: pd.DataFrame) -> pd.DataFrame:
    """The largest matching sparsity of every arm and group, with the numbers at that sparsity."""
    rows: list[dict[str, Any]] = []
    key = ["method", "axis", "group", "metric"]
    for values, part in levels.groupby(key, sort=False):
        most, unbroken = largest(part["sparsity"].tolist(), part["matching"].tolist())
        at = part[part["sparsity"] == most]
        row = at.iloc[0] if len(at) else part.iloc[0].to_dict() | {"mean": np.nan, "std": np.nan}
        rows.append(
            {
                **dict(zip(key, values, strict=True)),
                "sparsity": most,
                "unbroken": unbroken,
                **{name: row[name] for name in NUMBERS},
            }
        )
    return pd.DataFrame(rows)


def null_tables(
    context: TextContext, finished: Finished, measure: GroupMeasure
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """random_masks (a mask of a seed, of all texts or a group) and random_ranks (an arm at a
    sparsity among them).

    q: Benjamini-Hochberg over arms and sparsities, per group of texts.
    """
    shards, views = null_shards(context, finished.arms), views_of(context, measure)
    worth = {key: _worth(context, shard, views) for key, shard in shards.items()}
    masks = [
        row for key, shard in shards.items() for row in _mask_rows(context, key, shard, worth[key])
    ]
    ranks = list(_rank_rows(context, finished, worth, views)) if shards else []
    found = pd.DataFrame(ranks, columns=[name for name in RANKS if name != "q"])
    q = (
        found.groupby(["axis", "group"])["p"].transform(benjamini_hochberg)
        if len(found)
        else np.nan
    )
    return pd.DataFrame(masks, columns=MASKS), found.assign(q=q)[RANKS]


def _worth(
    context: TextContext, shard: TextShard, views: dict[View, np.ndarray]
) -> dict[View, np.ndarray]:
    """The metric of every random mask, [masks], of all texts and of every group."""
    predicted = context.without_weights(shard)[0]["predicted"].astype(np.int64)
    labels, k = context.table(TEST)["label"].to_numpy(), len(context.any_model.classes)
    return {
        view: worth_of(predicted[:, rows], labels[rows], view[2], k) for view, rows in views.items()
    }


def worth_of(predicted: np.ndarray, labels: np.ndarray, metric: str, k: int) -> np.ndarray:
    """One of task_metric.METRICS of predicted [masks, texts], classes of k, against labels [texts]:
    [masks]."""
    ones = np.ones((len(labels), 1), dtype=np.uint8)
    counts = np.concatenate([confusion(labels, guesses, k, ones) for guesses in predicted], axis=2)
    return METRICS[metric](counts)


def _mask_rows(
    context: TextContext,
    key: tuple[float, int],
    shard: TextShard,
    worth: Mapping[View, np.ndarray],
) -> Iterator[dict[str, Any]]:
    """A row per mask and group of texts; the units stand with the row of all texts."""
    units = [json.dumps(row) for row in context.without_weights(shard)[0]["units"].tolist()]
    for view, values in worth.items():
        for mask, value in enumerate(values):
            yield {
                "sparsity": key[0],
                "seed": key[1],
                "mask": mask,
                **_named(view),
                "value": float(value),
                "n_cut": shard.n_cut,
                "units": "" if view[0] else units[mask],
            }


def _rank_rows(
    context: TextContext,
    finished: Finished,
    worth: Mapping[tuple[float, int], Mapping[View, np.ndarray]],
    views: Mapping[View, np.ndarray],
) -> Iterator[dict[str, Any]]:
    for level in finished.levels:
        if level.arm.procedure.retrains:
            continue
        for view, rows in views.items():
            values = np.array(values_of(context, level.shards(), rows, view))
            trials = range(level.arm.n_trials)
            chance = np.stack([worth[level.sparsity, trial][view] for trial in trials])
            found = rank_among(values, chance)
            yield {
                "method": level.arm.name,
                "sparsity": level.sparsity,
                **_named(view),
                "value": float(values.mean()),
                **asdict(found),
                "n_masks": chance.shape[1],
                "n_seeds": len(values),
                "n": len(rows),
            }


@dataclass(frozen=True)
class Rank:
    """percentile: share of random masks below the arm's, ties half, mean over trials, 0 to 1. p:
    one-sided, of a value as high; null_mean, null_low, null_high: of random masks' means over
    trials and the band of 95 % (same heads in each trial).
    """

    percentile: float
    p: float
    null_mean: float
    null_low: float
    null_high: float


def rank_among(values: np.ndarray, chance: np.ndarray) -> Rank:
    """values: the arm's, [trials]; chance: of random masks, [trials, masks], mask by mask the same
    heads in each trial.

    p = (1 + masks at least as high) / (1 + masks), which is valid for any number of masks (Phipson
    and Smyth 2010).
    """
    apart = chance - values[:, None]
    percentile = np.mean((apart < -SAME) + 0.5 * (np.abs(apart) <= SAME))
    same = chance.mean(axis=0)
    low, high = np.quantile(same, TAILS)
    p = max(_p(values.mean(), same), _p(values.mean(), _apart(chance)))
    return Rank(float(percentile), p, float(same.mean()), float(low), float(high))


def _apart(chance: np.ndarray) -> np.ndarray:
    """Mean over trials with heads of its own in each: every trial's masks in an order of its own,
    [masks]."""
    draw = rng("random masks apart", chance.shape)
    return np.mean([row[draw.permutation(len(row))] for row in chance], axis=0)


def _p(value: float, chance: np.ndarray) -> float:
    return float((1 + (chance >= value - SAME).sum()) / (1 + len(chance)))

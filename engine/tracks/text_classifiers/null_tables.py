"""What random masks are worth, and where every arm that trains nothing stands among them: of all
texts and groups."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.groups import GroupMeasure
from engine.classifiers.metrics import confusion
from engine.core.ids import rng
from engine.stats.student import benjamini_hochberg
from engine.tracks.text_classifiers.arms import Finished, TextArm, null_shards
from engine.tracks.text_classifiers.context import TEST, TextContext, TextShard
from engine.tracks.text_classifiers.metrics import METRICS
from engine.tracks.text_classifiers.winning_tickets import values_of, views_of

MASKS = ["sparsity", "seed", "mask", "axis", "group", "metric", "value", "n_cut", "units"]
RANKS = [
    "method",
    "sparsity",
    "axis",
    "group",
    "metric",
    "value",
    "percentile",
    "p",
    "q",
    "null_mean",
    "null_low",
    "null_high",
    "n_masks",
    "n_seeds",
    "n",
]
View = tuple[str, str, str]
"""Axis, group and metric of what is measured."""


def null_tables(
    context: TextContext, arms: Sequence[TextArm], finished: Finished, measure: GroupMeasure
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """random_masks (a mask of a seed, of all texts or a group) and random_ranks (an arm at a
    sparsity among them).

    q: Benjamini-Hochberg over arms and sparsities, per group of texts.
    """
    shards, views = null_shards(context, arms), views_of(context, measure)
    worth = {key: _worth(context, shard, views) for key, shard in shards.items()}
    masks = [
        row for key, shard in shards.items() for row in _mask_rows(context, key, shard, worth[key])
    ]
    ranks = [
        row
        for arm in arms
        if shards and not arm.procedure.retrains
        for row in _rank_rows(context, arm, finished, worth, views)
    ]
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
    context: TextContext, key: tuple[float, int], shard: TextShard, worth: dict[View, np.ndarray]
) -> Iterator[dict[str, Any]]:
    """A row per mask and group of texts; the units stand with the row of all texts."""
    units = [json.dumps(row) for row in context.without_weights(shard)[0]["units"].tolist()]
    for (axis, group, metric), values in worth.items():
        for mask, value in enumerate(values):
            yield {
                "sparsity": key[0],
                "seed": key[1],
                "mask": mask,
                "axis": axis,
                "group": group,
                "metric": metric,
                "value": float(value),
                "n_cut": shard.n_cut,
                "units": "" if axis else units[mask],
            }


def _rank_rows(
    context: TextContext,
    arm: TextArm,
    finished: Finished,
    worth: dict[tuple[float, int], dict[View, np.ndarray]],
    views: dict[View, np.ndarray],
) -> Iterator[dict[str, Any]]:
    for sparsity in arm.sparsities:
        answers = [finished.answers(arm, sparsity, trial) for trial in range(arm.n_trials)]
        for view, rows in views.items():
            values = np.array(values_of(context, answers, rows, view))
            chance = np.stack([worth[sparsity, trial][view] for trial in range(arm.n_trials)])
            found = rank_among(values, chance)
            yield {
                "method": arm.name,
                "sparsity": sparsity,
                "axis": view[0],
                "group": view[1],
                "metric": view[2],
                "value": float(values.mean()),
                "percentile": found.percentile,
                "p": found.p,
                "null_mean": found.mean,
                "null_low": found.low,
                "null_high": found.high,
                "n_masks": chance.shape[1],
                "n_seeds": len(values),
                "n": len(rows),
            }


# Where an arm stands among random masks of as many heads on the same weights: percentile and
# rank p-value.
#
# An arm has one mask per trial, and its value is the mean over trials. Two nulls bracket how alike
# its masks are: heads that are the same in every trial, and heads of its own in each. Both are made
# of the same measured masks; the larger of their p-values is reported, so an arm whose trials agree
# on bad heads is not taken for lucky.


ENDS = (0.025, 0.975)
SAME = 1e-12
"""Means of equal numbers may differ in their last digits."""


@dataclass(frozen=True)
class Rank:
    """percentile: share of random masks below the arm's, ties half, mean over trials, 0 to 1; p:
    one-sided, of a value as high; mean, low, high: of random masks' means over trials and the band
    of 95 % (same heads in each trial).
    """

    percentile: float
    p: float
    mean: float
    low: float
    high: float


def rank_among(values: np.ndarray, chance: np.ndarray) -> Rank:
    """values: the arm's, [trials]; chance: of random masks, [trials, masks], mask by mask the same
    heads in each trial.

    p = (1 + masks at least as high) / (1 + masks), which is valid for any number of masks (Phipson
    and Smyth 2010).
    """
    apart = chance - values[:, None]
    percentile = np.mean((apart < -SAME) + 0.5 * (np.abs(apart) <= SAME))
    same = chance.mean(axis=0)
    low, high = np.quantile(same, ENDS)
    p = max(_p(values.mean(), same), _p(values.mean(), _apart(chance)))
    return Rank(float(percentile), p, float(same.mean()), float(low), float(high))


def _apart(chance: np.ndarray) -> np.ndarray:
    """Mean over trials with heads of its own in each: every trial's masks in an order of its own,
    [masks]."""
    draw = rng("random masks apart", chance.shape)
    return np.mean([row[draw.permutation(len(row))] for row in chance], axis=0)


def _p(value: float, chance: np.ndarray) -> float:
    return float((1 + (chance >= value - SAME).sum()) / (1 + len(chance)))

"""Whether the numbers of a classifier's run follow from its stored answers: AUC and accuracy are
computed again."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from engine.classifiers.groups import OVO, OVR
from engine.core.types import Values
from engine.core.words import is_by_hand
from engine.store.runs import Run, where

TOLERANCE = 1e-6
TRIED, TRIED_ITEMS = "tried_predictions", "tried_items"
"""Tables of additions: answers of a set that was tried by hand, and what it was tried on."""


def again_from_answers(
    results: pd.DataFrame,
    answers: pd.DataFrame,
    items: pd.DataFrame,
    key: str,
    multi_class: str = OVO,
    split: str = "test",
) -> list[dict[str, Any]]:
    """AUC and accuracy of every variant, computed again from its answers and compared with the
    stored results.

    results: the table `results`. answers: one row per variant and item with p_0, p_1, …. items:
    their labels, by `key`. multi_class: the AUC of more than two classes. split: of the items.
    Returns one check {"what", "ok"} per metric.
    """
    columns = [name for name in answers if name.startswith("p_")]
    checks = []
    for metric in ("auc", "accuracy"):
        rows = where(results, metric=metric, axis="", split=split)
        stored = rows.set_index("variant")["value"]
        again = {
            str(name): _again(
                metric, part, columns, items.loc[part[key], "label"].to_numpy(), multi_class
            )
            for name, part in answers.groupby("variant", sort=False)
        }
        worst = max(_apart(stored[name], value) for name, value in again.items())
        what = (
            f"{len(again)} values of {metric} follow from the stored answers (largest difference"
            f" {worst:.1e})"
        )
        checks.append({"what": what, "ok": bool(worst <= TOLERANCE)})
    return checks


def again_from_tried(run: Run, key: str, multi_class: str = OVO) -> list[Values]:
    """The same of sets that were tried by hand, from their answers to what they were tried on:
    tables of additions."""
    parts = {
        name: [one.table(name) for one in run.added if one.has(name)]
        for name in (TRIED, TRIED_ITEMS)
    }
    if not parts[TRIED]:
        return []
    answers = pd.concat(parts[TRIED]).drop_duplicates(["variant", key], keep="last")
    items = pd.concat(parts[TRIED_ITEMS]).drop_duplicates(key).set_index(key)
    results = run.table("results")
    split = next(name for name in ("validation", "train") if (results["split"] == name).any())
    sets = answers[answers["variant"].map(is_by_hand)]
    checks = again_from_answers(results, sets, items, key, multi_class, split)
    return [{**check, "what": f"tried on the {split} split: {check['what']}"} for check in checks]


def _apart(one: float, other: float) -> float:
    """Their distance; two that are not defined agree."""
    return (
        0.0
        if np.isnan(one) and np.isnan(other)
        else float(np.nan_to_num(abs(one - other), nan=np.inf))
    )


def _again(
    metric: str, part: pd.DataFrame, columns: list[str], truth: np.ndarray, multi_class: str
) -> float:
    """One metric of one variant, from its rows of answers and the true classes [rows] int."""
    answers = part[columns].to_numpy(dtype=float)
    if metric == "accuracy":
        return float((answers.argmax(axis=1) == truth).mean())
    if len(columns) == 2 and len(np.unique(truth)) == 2:
        return float(roc_auc_score(truth, part[columns[1]].to_numpy(dtype=float)))
    if multi_class == OVR:
        there = np.unique(truth)
        rest = (
            [roc_auc_score(truth == name, answers[:, name]) for name in there]
            if len(there) > 1
            else [np.nan]
        )
        return float(np.mean(rest))
    pairs = [pair for pair in combinations(range(len(columns)), 2) if np.isin(pair, truth).all()]
    return (
        float(np.mean([_of_pair(truth, answers, *pair) for pair in pairs]))
        if pairs
        else float("nan")
    )


def _of_pair(truth: np.ndarray, answers: np.ndarray, one: int, other: int) -> float:
    """Mean of both AUCs of a pair of classes, on the images of these two (Hand and Till 2001).

    truth [images] int, answers [images, classes].
    """
    mine = (truth == one) | (truth == other)
    return float(
        np.mean([roc_auc_score(truth[mine] == name, answers[mine, name]) for name in (one, other)])
    )


def pooled_are_means(run: Run) -> dict[str, Any]:
    """Pooled variants are the means of their trials."""
    variants, results = run.table("variants"), run.table("results")
    trials = variants[variants["pooled"] != ""].set_index("variant")["pooled"]
    rows = where(results, metric="auc", axis="", split="test")
    auc = rows.set_index("variant")["value"]
    trials = trials[
        trials.index.isin(auc.index)
    ]  # sets by hand that were only tried have none of test items
    means = auc[trials.index].groupby(trials).mean()
    worst = float(np.abs(means - auc[means.index]).max()) if len(means) else 0.0
    what = (
        f"{len(means)} pooled values of auc are the means of their trials (largest difference"
        f" {worst:.1e})"
    )
    return {"what": what, "ok": worst <= TOLERANCE}

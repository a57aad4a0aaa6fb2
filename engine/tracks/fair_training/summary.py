"""What the JSON form of a fair training holds, and whether its numbers follow from what it
stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.images import request
from engine.classifiers.layout import MIN_IMAGES, MIN_PER_CLASS
from engine.classifiers.tables import TOLERANCE, again_from_answers, apart, pooled_are_means
from engine.core.types import Values
from engine.report.summary import Summary
from engine.store.runs import Run, where

SUMMARY = Summary(
    "track experiment request model data targets warnings spent",
    "method base units strength sparsity realised parameters_cut speedup degenerate",
)


# What can be asked of a model or a run of fair training: what a model is, and whether a run's
# numbers follow from what was stored.


def inspected(given: Values) -> list[str]:
    """Sentences; given: model, weights, size and device as a request has them. RequestError with
    every fault."""
    from engine.tracks.fair_training.masked import masked_filters_of  # loads torch

    return request.inspected(given, masked_filters_of)


# Do the numbers of a fair run follow from what was stored? Accuracies, gaps, masks and areas are
# computed again.


def recomputed(run: Run) -> list[dict[str, Any]]:
    """One check per kind of number: the largest difference between what is stored and what plain
    counting finds."""
    results, images, answers = run.table("results"), run.table("images"), run.table("predictions")
    checks = again_from_answers(results, answers, images.set_index("image_id"), "image_id")
    checks += [
        pooled_are_means(run),
        _sparsities(run),
        _targets(run),
        *([_flops(run)] if _is_by_flops(run) else []),
    ]
    for axis in run.request["axes"]:
        if axis in images.columns and axis != "class":
            checks.append(_gaps(results, answers, images, axis))
    return checks


def _gaps(
    results: pd.DataFrame, answers: pd.DataFrame, images: pd.DataFrame, axis: str
) -> dict[str, Any]:
    """accuracy_gap and degradation_gap of the dense model and of every seed, from the answers."""
    columns = [name for name in answers if name.startswith("p_")]
    table = images.set_index("image_id")
    counts = table.groupby([axis, "label"]).size().unstack(fill_value=0)
    kept = counts[
        (counts.sum(axis=1) >= MIN_IMAGES) & ((counts == 0) | (counts >= MIN_PER_CLASS)).all(axis=1)
    ]
    kept = kept[(kept > 0).sum(axis=1) > 1].drop(index="", errors="ignore")
    by_group = {}
    for name, part in answers.groupby("variant", sort=False):
        mine = table.loc[part["image_id"]]
        right = part[columns].to_numpy(dtype=float).argmax(axis=1) == mine["label"].to_numpy()
        by_group[str(name)] = pd.Series(right).groupby(mine[axis].to_numpy()).mean().loc[kept.index]
    worst, n = 0.0, 0
    for metric in ("accuracy_gap", "degradation_gap"):
        stored = where(results, metric=metric, axis=axis).set_index("variant")["value"]
        for name, own in by_group.items():
            if name in stored.index and len(own) > 1:
                levels = own if metric == "accuracy_gap" else by_group["dense"] - own
                worst, n = (
                    max(worst, apart(stored[name], float(levels.max() - levels.min()))),
                    n + 1,
                )
    what = f"{n} gaps of {axis} follow from the stored answers (largest difference {worst:.1e})"
    return {"what": what, "ok": worst <= TOLERANCE}


def _is_by_flops(run: Run) -> bool:
    """Whether a sparsity of filters is a share of FLOPs."""
    return bool(run.request["equal"] == "FLOPs")


def _flops(run: Run) -> dict[str, Any]:
    """Every seed whose target is said to be met left as many FLOPs as its sparsity says, within 0.1
    % of them."""
    variants = run.table("variants")
    dense = float(variants.loc[variants["variant"] == "dense", "flops"].iat[0])
    seeds = variants[(variants["seed"] >= 0) & (variants["units"] == "filters")]
    left = seeds["flops"] / dense
    miss = (left / (1 - seeds["sparsity"]) - 1).abs()[seeds["met"].astype(bool)]
    ok = bool((miss <= 1e-3 + 1e-9).all() and np.allclose(1 - left, seeds["realised"], atol=1e-9))
    return {
        "what": f"{len(miss)} of {len(seeds)} masks of filters leave the FLOPs asked for",
        "ok": ok,
    }


def _sparsities(run: Run) -> dict[str, Any]:
    """Every seed cut as many units as its sparsity says, to the nearest one."""
    variants = run.table("variants")
    seeds = variants[(variants["seed"] >= 0) & (variants["n_cut"] > 0)]
    seeds = seeds[seeds["units"] != "filters"] if _is_by_flops(run) else seeds
    units = seeds["n_cut"] / seeds["realised"]
    worst = float(np.abs(seeds["sparsity"] * units - seeds["n_cut"]).max()) if len(seeds) else 0.0
    what = (
        f"{len(seeds)} masks cut the number of units they were asked for (largest difference"
        f" {worst:.2f} units)"
    )
    return {"what": what, "ok": worst <= 0.5 + 1e-6}


def _targets(run: Run) -> dict[str, Any]:
    """Where a seed is said to have reached gap and accuracy, its curve has two such looks in a row,
    or one at its end, and no earlier ones. `held` is about the last look."""
    table, curves = run.table("reached"), run.table("curves")
    variants = run.table("variants").set_index("variant")
    realised = variants["realised"]
    if _is_by_flops(run):  # FLOPs may miss what was asked by a thousandth
        by_flops = variants["units"] == "filters"
        realised = realised.where(~by_flops, np.minimum(realised, variants["sparsity"]) - 1e-3)
    looks = curves[curves["accuracy"].notna()]
    wrong = 0
    for row in table.itertuples():
        mine = looks[looks["variant"] == row.variant]
        gaps = mine["gap" if row.notion == "accuracy" else "degradation"]
        met = [
            bool(
                gap <= row.gap_target
                and accuracy >= row.accuracy_target
                and cut >= realised[row.variant] - 1e-9
            )
            for gap, accuracy, cut in zip(gaps, mine["accuracy"], mine["cut"], strict=True)
        ]
        places = [place for place in range(len(met)) if all(met[place : place + 2])]
        first = float(mine["step"].iloc[places[0]]) if places else np.nan
        wrong += bool(places) != bool(row.reached) or (len(places) > 0 and first != row.iterations)
        wrong += bool(met and met[-1]) != bool(row.held)
    return {
        "what": f"{len(table)} times until gap and accuracy were reached follow from the curves",
        "ok": wrong == 0,
    }

"""From finished trials to the tables of an image run. Their columns are described in
docs/TABLES.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.groups import Arm as MeasuredArm
from engine.classifiers.groups import GroupMeasure, Measured, arm_difference
from engine.classifiers.images.context import DENSE, ImageContext, ImageShard
from engine.classifiers.images.request import CLASS_AXIS
from engine.classifiers.metrics import degenerate
from engine.classifiers.tables import (
    costs_table,
    layers_table,
    predictions_table,
    test_images,
    thumbnails,
    weights_table,
)
from engine.core.types import POOLED
from engine.data.images.changes import CAT_AND_DOG, Artefact, Underrepresent, named_classes
from engine.data.images.load import ImageSet
from engine.stats.multi_reader import Trials, difference, level
from engine.stats.student import benjamini_hochberg
from engine.store.tables import unpack, within
from engine.surgery.filters.cut import widths_after
from engine.tracks.image_classifiers.measurements.trial import chosen_shard
from engine.tracks.image_classifiers.request import Arm, ImageRequest

DIFFERENCES = ("auc", "accuracy", "auc_gap", "accuracy_gap")
"""What is compared between an arm with the PW loss and the same method without."""

Check = Callable[[], None]


def image_tables(
    context: ImageContext, request: ImageRequest, arms: Sequence[Arm], check: Check
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """All tables of the run, and sentences about the groups that a screen must show."""
    dense = context.answers(ImageShard(""))
    images = test_images(context)
    measure = GroupMeasure(
        images,
        context.start.classes,
        request.axes,
        dense.astype(np.float64),
        multi_class=request.multi_class,
    )
    measured = _measured(context, arms, measure, check)
    results, groups, differences = _numbers(arms, measure, measured, check)
    firsts = [arm.trials(speedup)[0] for arm in arms for speedup in arm.speedups]
    thumbs, variants = (
        thumbnails(context, map(context.answers, firsts), dense),
        _variants(context, arms),
    )
    answers = {arm.id_of(shard): context.answers(shard) for arm in arms for shard in arm.trials()}
    tables = {
        "variants": variants,
        "results": results,
        "groups": groups,
        "arm_differences": differences,
        "images": images,
        "predictions": predictions_table({DENSE: dense, **answers}, images),
        "thumbs": thumbs,
        "scores": _scores(context, arms),
        "layers": layers_table(_masks(context, arms)),
        "costs": costs_table(context, _cost_shards(arms), variants),
        "curves": _curves(context, request, arms),
    }
    pooled = {
        arm.pooled(speedup): measured[arm.name, speedup] for arm in arms for speedup in arm.speedups
    }
    if sound := [
        found.results for name, one in pooled.items() if (found := one.without_degenerate(name))
    ]:
        tables["without_degenerate"] = pd.concat(sound, ignore_index=True)
    affected = affected_table(
        affected_classes(request, context.images), {DENSE: measure.dense_arm, **pooled}
    )
    if len(affected):
        tables["affected"] = affected
    if request.loss_share:
        tables["loss_share"] = _loss_shares(context, arms)
    weights = _weights(context, request, arms)
    if len(weights):
        tables["weights"] = weights
    return tables, list(measure.notes)


def _measured(
    context: ImageContext, arms: Sequence[Arm], measure: GroupMeasure, check: Check
) -> dict[tuple[str, float], MeasuredArm]:
    """Every arm at every speedup, over its trials."""
    found = {}
    for arm in arms:
        for speedup in arm.speedups:
            check()
            trials = [context.answers(shard).astype(np.float64) for shard in arm.trials(speedup)]
            found[arm.name, speedup] = measure.variant(trials)
    return found


def _numbers(
    arms: Sequence[Arm],
    measure: GroupMeasure,
    measured: dict[tuple[str, float], MeasuredArm],
    check: Check,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """results and groups of the dense model, every pooled variant and every trial; differences
    between arms."""
    parts: list[Measured] = [measure.dense()]
    for arm in arms:
        for speedup in arm.speedups:
            check()
            mine = measured[arm.name, speedup]
            parts.append(mine.pooled(arm.pooled(speedup)))
            parts += [mine.trial(shard.trial, arm.id_of(shard)) for shard in arm.trials(speedup)]
    results = pd.concat([part.results for part in parts], ignore_index=True)
    groups = pd.concat([part.groups for part in parts], ignore_index=True)
    return results, groups, _differences(arms, measured)


def _differences(
    arms: Sequence[Arm], measured: dict[tuple[str, float], MeasuredArm]
) -> pd.DataFrame:
    """Every arm minus the plain arm of the same method, at the same speedup; q: Benjamini-Hochberg
    per metric."""
    plain = {arm.method: arm for arm in arms if arm.loss == "plain"}
    columns = [
        "base",
        "loss",
        "speedup",
        "axis",
        "metric",
        "group",
        "value",
        "low",
        "high",
        "p",
        "n",
        "n_trials",
        "verdict",
    ]
    parts = []
    for arm in arms:
        if arm.loss == "plain" or arm.method not in plain:
            continue
        for speedup in arm.speedups:
            table = arm_difference(
                measured[arm.name, speedup], measured[plain[arm.method].name, speedup]
            )
            table = table[table["metric"].isin(DIFFERENCES)]
            parts.append(
                table.assign(base=arm.method, loss=arm.loss, speedup=speedup, n_trials=arm.n_trials)
            )
    if not parts:
        return pd.DataFrame(columns=columns)
    table = pd.concat(parts, ignore_index=True)
    return table.assign(q=table.groupby("metric")["p"].transform(benjamini_hochberg))[columns]


def _variants(context: ImageContext, arms: Sequence[Arm]) -> pd.DataFrame:
    """The dense model, every pooled variant, every trial."""
    rows = [_variant_row(DENSE, DENSE, "", "", 1.0, achieved=1.0, flops=context.graph.flops())]
    for arm in arms:
        for speedup in arm.speedups:
            trials = [_trial_row(context, arm, shard) for shard in arm.trials(speedup)]
            rows += [_pooled_row(arm, speedup, trials), *trials]
    return pd.DataFrame(rows)


def _variant_row(
    name: str, method: str, base: str, loss: str, speedup: float, **more: Any
) -> dict[str, Any]:
    usual = {
        "target_axis": "",
        "gamma": np.nan,
        "sparsity": 0.0,
        "realised": 0.0,
        "n_cut": 0,
        "seed": POOLED,
        "pooled": "",
        "chosen": True,
        "degenerate": 0,
        "met": True,
        "cut": "{}",
        "history": "[]",
        "mask_digest": "",
        "max_logit_difference": 0.0,
    }
    return {
        "variant": name,
        "method": method,
        "base": base,
        "loss": loss,
        "speedup": speedup,
        **usual,
        **more,
    }


def _trial_row(context: ImageContext, arm: Arm, shard: ImageShard) -> dict[str, Any]:
    arrays, plain = context.without_weights(shard)
    mask = context.graph.mask(arrays["keep"])
    return _variant_row(
        arm.id_of(shard),
        arm.name,
        arm.method,
        arm.loss,
        shard.speedup,
        achieved=context.graph.flops() / plain["flops"],
        flops=plain["flops"],
        sparsity=mask.sparsity,
        realised=mask.sparsity,
        n_cut=mask.n_cut,
        seed=shard.trial,
        pooled=arm.pooled(shard.speedup),
        chosen=False,
        degenerate=int(degenerate(arrays["probabilities"])),
        met=plain["met"],
        cut=json.dumps(mask.to_dict()),
        history=json.dumps(plain["history"]),
        mask_digest=mask.digest,
        max_logit_difference=plain["max_logit_difference"],
    )


def _pooled_row(arm: Arm, speedup: float, trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over the trials; how many of them are degenerate; whether all met the target."""
    means = {
        name: float(np.mean([row[name] for row in trials]))
        for name in ("achieved", "flops", "sparsity", "realised")
    }
    return _variant_row(
        arm.pooled(speedup),
        arm.name,
        arm.method,
        arm.loss,
        speedup,
        **means,
        n_cut=int(round(float(np.mean([row["n_cut"] for row in trials])))),
        degenerate=sum(row["degenerate"] for row in trials),
        met=all(row["met"] for row in trials),
        max_logit_difference=max(row["max_logit_difference"] for row in trials),
        cut="",
        history="",
    )


def _scores(context: ImageContext, arms: Sequence[Arm]) -> pd.DataFrame:
    """One row per filter of every trial: what the method gave it, and whether it stayed."""
    layer = context.graph.group_of
    starts = np.array([group.start for group in context.graph.groups])
    names = np.array([group.root for group in context.graph.groups], dtype=object)
    units = np.arange(context.graph.total)
    parts = []
    for arm in arms:
        for shard in arm.trials():
            arrays, _ = context.without_weights(chosen_shard(shard))
            parts.append(
                pd.DataFrame(
                    {
                        "unit": units,
                        "layer": layer,
                        "group": names[layer],
                        "filter": units - starts[layer],
                        "method": arm.name,
                        "speedup": shard.speedup,
                        "seed": shard.trial,
                        "value": arrays["scores"].astype(np.float32),
                        "kept": arrays["keep"].astype(bool),
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


def _masks(context: ImageContext, arms: Sequence[Arm]) -> dict[str, Sequence[tuple[str, int, int]]]:
    """Per trial (group, filters, kept)."""
    return {
        arm.id_of(shard): widths_after(
            context.graph.mask(context.without_weights(shard)[0]["keep"])
        )
        for arm in arms
        for shard in arm.trials()
    }


def _cost_shards(arms: Sequence[Arm]) -> dict[str, ImageShard]:
    """The first trial of every pooled variant."""
    return {arm.pooled(one): arm.cost(one) for arm in arms for one in arm.speedups}


def _curves(context: ImageContext, request: ImageRequest, arms: Sequence[Arm]) -> pd.DataFrame:
    """Loss while choosing filters and while retraining, and of fitting the dense model."""
    parts = []
    if request.train is not None:
        parts.append(
            _curve(context.without_weights(ImageShard("dense_weights"))[0], DENSE, "train")
        )
    for arm in arms:
        for shard in arm.trials():
            name = arm.id_of(shard)
            parts.append(_curve(context.without_weights(chosen_shard(shard))[0], name, "prune"))
            parts.append(_curve(context.without_weights(shard)[0], name, "retrain"))
    found = [part for part in parts if len(part)]
    columns = ["variant", "phase", "step", "loss", "flops"]
    return (
        pd.concat(found, ignore_index=True).reindex(columns=columns)
        if found
        else pd.DataFrame(columns=columns)
    )


def _curve(arrays: dict[str, np.ndarray], variant: str, phase: str) -> pd.DataFrame:
    """The stored curve of one training as rows of the table `curves`; arrays by name, one [epochs]
    or [steps] per column.
    """
    found = pd.DataFrame(within(arrays, "curve/")).rename(columns={"epoch": "step"})
    return found.assign(variant=variant, phase=phase)


def _loss_shares(context: ImageContext, arms: Sequence[Arm]) -> pd.DataFrame:
    parts = []
    for arm in arms:
        shards = arm.loss_shares()
        for shard, table in zip(shards, context.fetch(shards), strict=True):
            table = table.rename(columns={"loss": "nats"})
            parts.append(
                table.assign(method=arm.name, base=arm.method, loss=arm.loss, trial=shard.trial)
            )
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _weights(context: ImageContext, request: ImageRequest, arms: Sequence[Arm]) -> pd.DataFrame:
    """Weights of cut and retrained models: of the first trials, of all or of none; and of a dense
    model fitted here."""
    wanted = {
        arm.id_of(shard): shard
        for arm in arms
        for shard in arm.trials()
        if request.keep_weights == "all" or (request.keep_weights == "first" and shard.trial == 0)
    }
    kept = (
        (name, within(unpack(context.fetch([shard])[0])[0], "weights/"))
        for name, shard in wanted.items()
    )
    return weights_table(context, kept)


# The classes that a change of the images is about, and their mean AUC (Meyer and Wong 2023, Fig.
# 7).


ABOUT = {Underrepresent.name: ("classes", CAT_AND_DOG), Artefact.name: ("cls", CAT_AND_DOG[1:])}
"""By change: the setting that names classes, and the places of those it means where none is named.
"""


def affected_classes(request: ImageRequest, images: ImageSet) -> tuple[str, ...]:
    """Classes that the changes of a request are about, each once."""
    found: list[str] = []
    for change in request.changes:
        if change["name"] in ABOUT:
            setting, places = ABOUT[change["name"]]
            found += named_classes(change["name"], images, change.get(setting, ""), places)
    return tuple(dict.fromkeys(found))


def affected_table(classes: tuple[str, ...], arms: Mapping[str, MeasuredArm]) -> pd.DataFrame:
    """Mean of the affected classes' AUC, each against the rest: a row per variant, with the change
    against the dense.

    arms: by the id of the variant, "dense" among them. Empty where classes are no axis of the
    audit.
    """
    dense, rows = _mean(arms["dense"], classes), []
    for name, arm in arms.items():
        mine = _mean(arm, classes)
        if mine is None or dense is None:
            continue
        shown = level(mine)
        row = {
            "variant": name,
            "classes": ", ".join(classes),
            "value": shown.value[0],
            "low": shown.low[0],
            "high": shown.high[0],
            "n_trials": len(mine.numbers),
        }
        change = difference(mine, dense) if name != "dense" else None
        ends = (
            [np.nan] * 4
            if change is None
            else [change.value[0], change.low[0], change.high[0], change.p[0]]
        )
        rows.append(
            {**row, **dict(zip(("delta", "delta_low", "delta_high", "delta_p"), ends, strict=True))}
        )
    return pd.DataFrame(rows)


def _mean(arm: MeasuredArm, classes: tuple[str, ...]) -> Trials | None:
    """The mean AUC of the classes as one cell; None where they were not measured."""
    cells = arm.measure.cells
    mine = (cells["axis"] == CLASS_AXIS) & (cells["metric"] == "auc") & cells["group"].isin(classes)
    places = cells.index[mine]
    if not len(places):
        return None
    trials = arm.trials
    return Trials(
        trials.numbers,
        trials.values[:, places].mean(axis=1, keepdims=True),
        trials.draws[..., places].mean(axis=-1, keepdims=True),
        np.ones(1, dtype=bool),
        trials.units[places].sum(keepdims=True),
    )

"""From finished trials to the tables of an image run. Their columns are described in docs/TABLES.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.image_arms import DENSE, Arm
from engine.audit.image_gallery import thumbnails
from engine.audit.image_request import ImageRequest
from engine.metrics.classifier_groups import Arm as MeasuredArm
from engine.metrics.classifier_groups import GroupMeasure, Measured, arm_difference
from engine.metrics.classifier_metrics import degenerate
from engine.metrics.fdr import benjamini_hochberg
from engine.metrics.image_bench import TEST, ImageBench, ImageShard
from engine.metrics.packed import pack, unpack, within
from engine.scores.image_kinds.trial import chosen_shard
from engine.surgery.filter_cut import widths_after
from engine.types import POOLED

DIFFERENCES = ("auc", "accuracy", "auc_gap", "accuracy_gap")
"""What is compared between an arm with the PW loss and the same method without."""

Check = Callable[[], None]


def image_tables(
    bench: ImageBench, request: ImageRequest, arms: Sequence[Arm], check: Check
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """All tables of the run, and sentences about the groups that a screen must show."""
    dense = bench.answers(ImageShard(""))
    images = test_images(bench)
    measure = GroupMeasure(images, bench.start.classes, request.axes, dense.astype(np.float64))
    measured = _measured(bench, arms, measure, check)
    results, groups, differences = _numbers(arms, measure, measured, check)
    firsts = [arm.trials(speedup)[0] for arm in arms for speedup in arm.speedups]
    thumbs, variants = thumbnails(bench, firsts, dense), _variants(bench, arms)
    answers = {arm.id_of(shard): bench.answers(shard) for arm in arms for shard in arm.trials()}
    tables = {
        "variants": variants,
        "results": results,
        "groups": groups,
        "arm_differences": differences,
        "images": images,
        "predictions": predictions_table({DENSE: dense, **answers}, images),
        "thumbs": thumbs,
        "scores": _scores(bench, arms),
        "layers": layers_table(_masks(bench, arms)),
        "costs": costs_table(bench, _cost_shards(arms), variants),
        "curves": _curves(bench, request, arms),
    }
    if request.loss_share:
        tables["loss_share"] = _loss_shares(bench, arms)
    weights = _weights(bench, request, arms)
    if len(weights):
        tables["weights"] = weights
    return tables, list(measure.notes)


def test_images(bench: ImageBench) -> pd.DataFrame:
    """The table `images`."""
    table = bench.images.table.iloc[bench.rows(TEST)].reset_index(drop=True)
    return table[["image_id", "split", "label", *bench.images.groups]]


def _measured(
    bench: ImageBench, arms: Sequence[Arm], measure: GroupMeasure, check: Check
) -> dict[tuple[str, float], MeasuredArm]:
    """Every arm at every speedup, over its trials."""
    found = {}
    for arm in arms:
        for speedup in arm.speedups:
            check()
            trials = [bench.answers(shard).astype(np.float64) for shard in arm.trials(speedup)]
            found[arm.name, speedup] = measure.variant(trials)
    return found


def _numbers(
    arms: Sequence[Arm], measure: GroupMeasure, measured: dict[tuple[str, float], MeasuredArm], check: Check
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """results and groups of the dense model, every pooled variant and every trial; differences between arms."""
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


def _differences(arms: Sequence[Arm], measured: dict[tuple[str, float], MeasuredArm]) -> pd.DataFrame:
    """Every arm minus the plain arm of the same method, at the same speedup; q: Benjamini-Hochberg per metric."""
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
            table = arm_difference(measured[arm.name, speedup], measured[plain[arm.method].name, speedup])
            table = table[table["metric"].isin(DIFFERENCES)]
            parts.append(table.assign(base=arm.method, loss=arm.loss, speedup=speedup, n_trials=arm.n_trials))
    if not parts:
        return pd.DataFrame(columns=columns)
    table = pd.concat(parts, ignore_index=True)
    return table.assign(q=table.groupby("metric")["p"].transform(benjamini_hochberg))[columns]


def _variants(bench: ImageBench, arms: Sequence[Arm]) -> pd.DataFrame:
    """The dense model, every pooled variant, every trial."""
    rows = [_variant_row(DENSE, DENSE, "", "", 1.0, achieved=1.0, flops=bench.graph.flops())]
    for arm in arms:
        for speedup in arm.speedups:
            trials = [_trial_row(bench, arm, shard) for shard in arm.trials(speedup)]
            rows += [_pooled_row(arm, speedup, trials), *trials]
    return pd.DataFrame(rows)


def _variant_row(name: str, method: str, base: str, loss: str, speedup: float, **more: Any) -> dict[str, Any]:
    usual = {"target_axis": "", "gamma": np.nan, "sparsity": 0.0, "realised": 0.0, "n_cut": 0, "seed": POOLED,
             "pooled": "", "chosen": True, "degenerate": 0, "met": True, "cut": "{}", "history": "[]",
             "mask_digest": "", "max_logit_difference": 0.0}  # fmt: skip
    return {"variant": name, "method": method, "base": base, "loss": loss, "speedup": speedup, **usual, **more}


def _trial_row(bench: ImageBench, arm: Arm, shard: ImageShard) -> dict[str, Any]:
    arrays, plain = bench.without_weights(shard)
    mask = bench.graph.mask(arrays["keep"])
    return _variant_row(
        arm.id_of(shard), arm.name, arm.method, arm.loss, shard.speedup,
        achieved=bench.graph.flops() / plain["flops"], flops=plain["flops"], sparsity=mask.sparsity,
        realised=mask.sparsity, n_cut=mask.n_cut, seed=shard.trial, pooled=arm.pooled(shard.speedup), chosen=False,
        degenerate=int(degenerate(arrays["probabilities"])), met=plain["met"], cut=json.dumps(mask.to_dict()),
        history=json.dumps(plain["history"]), mask_digest=mask.digest,
        max_logit_difference=plain["max_logit_difference"],
    )  # fmt: skip


def _pooled_row(arm: Arm, speedup: float, trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over the trials; how many of them are degenerate; whether all met the target."""
    means = {
        name: float(np.mean([row[name] for row in trials])) for name in ("achieved", "flops", "sparsity", "realised")
    }
    return _variant_row(
        arm.pooled(speedup), arm.name, arm.method, arm.loss, speedup, **means,
        n_cut=int(round(float(np.mean([row["n_cut"] for row in trials])))),
        degenerate=sum(row["degenerate"] for row in trials), met=all(row["met"] for row in trials),
        max_logit_difference=max(row["max_logit_difference"] for row in trials), cut="", history="",
    )  # fmt: skip


def predictions_table(answers: Mapping[str, np.ndarray], images: pd.DataFrame) -> pd.DataFrame:
    """The table `predictions`, from the answers [images, classes] of every variant, the dense model first."""
    columns = [f"p_{place}" for place in range(answers[DENSE].shape[1])]
    return pd.concat(
        [
            pd.DataFrame(found.astype(np.float32), columns=columns).assign(variant=name, image_id=images["image_id"])
            for name, found in answers.items()
        ],
        ignore_index=True,
    )[["variant", "image_id", *columns]]


def _scores(bench: ImageBench, arms: Sequence[Arm]) -> pd.DataFrame:
    """One row per filter of every trial: what the method gave it, and whether it stayed."""
    layer = bench.graph.group_of
    starts = np.array([group.start for group in bench.graph.groups])
    names = np.array([group.root for group in bench.graph.groups], dtype=object)
    units = np.arange(bench.graph.total)
    parts = []
    for arm in arms:
        for shard in arm.trials():
            arrays, _ = bench.without_weights(chosen_shard(shard))
            parts.append(pd.DataFrame({
                "unit": units, "layer": layer, "group": names[layer], "filter": units - starts[layer],
                "method": arm.name, "speedup": shard.speedup, "seed": shard.trial,
                "value": arrays["scores"].astype(np.float32), "kept": arrays["keep"].astype(bool),
            }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def _masks(bench: ImageBench, arms: Sequence[Arm]) -> dict[str, Sequence[tuple[str, int, int]]]:
    """Per trial (group, filters, kept)."""
    return {
        arm.id_of(shard): widths_after(bench.graph.mask(bench.without_weights(shard)[0]["keep"]))
        for arm in arms for shard in arm.trials()
    }  # fmt: skip


def layers_table(widths: Mapping[str, Sequence[tuple[str, int, int]]]) -> pd.DataFrame:
    """The table `layers`, from (group, filters, kept) of every trial."""
    rows = [
        (name, place, group, width, kept)
        for name, layers in widths.items()
        for place, (group, width, kept) in enumerate(layers)
    ]
    return pd.DataFrame(rows, columns=["variant", "layer", "group", "filters", "kept"])


def _cost_shards(arms: Sequence[Arm]) -> dict[str, ImageShard]:
    """The first trial of every pooled variant."""
    return {arm.pooled(one): arm.cost(one) for arm in arms for one in arm.speedups}


def costs_table(bench: ImageBench, shards: Mapping[str, Any], variants: pd.DataFrame) -> pd.DataFrame:
    """The table `costs`: the dense model, and `shards` by variant."""
    shards = {DENSE: ImageShard("cost"), **shards}
    tables = bench.fetch(list(shards.values()))
    found = pd.concat(
        [table.assign(variant=name) for name, table in zip(shards, tables, strict=True)], ignore_index=True
    )
    worst = variants.set_index("variant")["max_logit_difference"]
    return found.assign(max_logit_difference=found["variant"].map(worst), agrees=True)


def _curves(bench: ImageBench, request: ImageRequest, arms: Sequence[Arm]) -> pd.DataFrame:
    """Loss while choosing filters and while retraining, and of fitting the dense model."""
    parts = []
    if request.train is not None:
        parts.append(_curve(bench.without_weights(ImageShard("dense_weights"))[0], DENSE, "train"))
    for arm in arms:
        for shard in arm.trials():
            name = arm.id_of(shard)
            parts.append(_curve(bench.without_weights(chosen_shard(shard))[0], name, "prune"))
            parts.append(_curve(bench.without_weights(shard)[0], name, "retrain"))
    found = [part for part in parts if len(part)]
    columns = ["variant", "phase", "step", "loss", "flops"]
    return pd.concat(found, ignore_index=True).reindex(columns=columns) if found else pd.DataFrame(columns=columns)


def _curve(arrays: dict[str, np.ndarray], variant: str, phase: str) -> pd.DataFrame:
    found = pd.DataFrame(within(arrays, "curve/")).rename(columns={"epoch": "step"})
    return found.assign(variant=variant, phase=phase)


def _loss_shares(bench: ImageBench, arms: Sequence[Arm]) -> pd.DataFrame:
    parts = []
    for arm in arms:
        shards = arm.loss_shares()
        for shard, table in zip(shards, bench.fetch(shards), strict=True):
            table = table.rename(columns={"loss": "nats"})
            parts.append(table.assign(method=arm.name, base=arm.method, loss=arm.loss, trial=shard.trial))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _weights(bench: ImageBench, request: ImageRequest, arms: Sequence[Arm]) -> pd.DataFrame:
    """Weights of cut and retrained models: of the first trials, of all or of none; and of a dense model fitted here."""
    wanted = {
        arm.id_of(shard): shard
        for arm in arms for shard in arm.trials()
        if request.keep_weights == "all" or (request.keep_weights == "first" and shard.trial == 0)
    }  # fmt: skip
    kept = ((name, within(unpack(bench.fetch([shard])[0])[0], "weights/")) for name, shard in wanted.items())
    return weights_table(bench, kept)


def weights_table(bench: ImageBench, kept: Iterable[tuple[str, Mapping[str, np.ndarray]]]) -> pd.DataFrame:
    """The table `weights`: of a dense model that was fitted here, and those of `kept`, pairs of variant and tensors."""
    parts = []
    if bench.settings.train is not None:
        parts.append(pack(within(bench.fetch_arrays(ImageShard("dense_weights"))[0], "weights/")).assign(variant=DENSE))
    parts += [pack(arrays).assign(variant=name) for name, arrays in kept]
    columns = ["variant", "name", "shape", "dtype", "data"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)

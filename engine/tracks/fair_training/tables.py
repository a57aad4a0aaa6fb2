"""From finished trainings to the tables of a fair run. Their columns are described in
docs/TABLES.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.session import Session
from engine.classifiers.groups import Arm, GroupMeasure, arm_difference, degenerate
from engine.classifiers.images.context import DENSE, ImageShard
from engine.classifiers.tables import (
    UNCUT,
    curve_of,
    curves_table,
    differences_table,
    fitted,
    image_tables,
    measured_arms,
    over_repeats,
    test_images,
    variant_row,
    weights_table,
)
from engine.core.types import Values, digest_of
from engine.stats.gap_of_means import Trials, difference
from engine.store.runs import where, within
from engine.surgery.filters.graph import widths_after
from engine.surgery.ranking import TOLERANCE
from engine.tracks.fair_training.arms import SPARSITY, FairArm, compared, surface_shards
from engine.tracks.fair_training.context import FairContext, FairShard
from engine.tracks.fair_training.methods.base import (
    ACCURACY,
    DEGRADATION,
    FILTERS,
    FLOPS,
    LOOKS,
    PHASE_POINT,
    WEIGHTS,
)
from engine.tracks.fair_training.request import FairPlan, FairRequest
from engine.tracks.fair_training.tradeoff import METRIC as DEGRADATION_GAP
from engine.tracks.fair_training.tradeoff import (
    degradation_gaps,
    degradation_trials,
    hypervolume_table,
    tradeoff_table,
)

DIFFERENCES = ("accuracy", "accuracy_gap", "tpr_gap")
"""What is compared between two methods, besides the gap of degradation."""
GAP_OF = {ACCURACY: "gap", DEGRADATION: "degradation"}
"""Column of a curve that a notion is about."""
COSTS_TO_REACH = ("iterations", "mask_updates", "examples", "seconds")
"""What it took until a model was as fair and as accurate as stated."""


def fair_tables(
    audit: Session[FairPlan, FairContext], made: tuple[Sequence[FairArm], Mapping[str, float]]
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """All tables of the run, and sentences about the groups that a screen must show. made: the
    arms, and the gap and accuracy on validation images that were to be reached."""
    arms, targets = made
    context, request, check = audit.context, audit.request, audit.context.hooks.check
    dense, images = context.answers(ImageShard("")), test_images(context)
    measure = GroupMeasure(images, context.start.classes, request.axes, dense.astype(np.float64))
    measured = measured_arms(context.answers, arms, measure, check)
    variants, reported = _variants(context, arms), [arm for arm in arms if arm.role == SPARSITY]
    layers = dict(_layers(context, arms))
    tables = image_tables(context, arms, measure, measured, variants, layers, reported, check)
    tables["results"] = pd.concat([tables["results"], *_lost(measured)], ignore_index=True)
    tables |= {
        "arm_differences": differences_table(_differences(measured), "method", "base", "sparsity"),
        "curves": _curves(context, request, arms),
        "reached": _reached(context, request, arms, targets),
    }
    if request.tradeoff_strengths:
        by_seeds = {arm: by_seed(mine, arm.n_seeds) for arm, mine in measured.items()}
        tables["tradeoff"] = tradeoff_table(request, arms, by_seeds)
        tables["hypervolume"] = hypervolume_table(request, arms, by_seeds, images)
    tables |= _surfaces(context, request)
    weights = weights_table(_kept(context, request, arms))
    if len(weights):
        tables["weights"] = weights
    return tables, list(measure.notes)


def _lost(measured: Mapping[FairArm, Arm]) -> Iterator[pd.DataFrame]:
    """The gap of degradation of every variant and its seeds."""
    for arm, mine in measured.items():
        yield degradation_gaps(mine, arm.pooled)
        for shard in arm.shards():
            yield degradation_gaps(mine, arm.id_of(shard), arm.number(shard))


def _differences(measured: Mapping[FairArm, Arm]) -> Iterator[pd.DataFrame]:
    """BiFP with filters against every other method, BiFP with weights against those that cut
    weights too."""
    for arm, base in compared(list(measured)):
        one, other, n_seeds = measured[arm], measured[base], arm.n_seeds
        table = where(arm_difference(by_seed(one, n_seeds), by_seed(other, n_seeds)), group="")
        lost = _lost_otherwise(one, other, n_seeds)
        table = pd.concat([table[table["metric"].isin(DIFFERENCES)], lost], ignore_index=True)
        yield table.assign(
            method=arm.method, base=base.method, sparsity=arm.sparsity, n_trials=n_seeds
        )


def by_seed(arm: Arm, n_seeds: int) -> Arm:
    """The arm with its draws of one seed as one trial, their mean, so that seeds are compared with
    seeds.

    Draws of a seed share its batches, and what other training they rest on: they are no seeds of
    their own.
    """
    return replace(arm, trials=_mean_of_draws(arm.trials, n_seeds))


def _mean_of_draws(trials: Trials, n_seeds: int) -> Trials:
    """Trials numbered draw by draw, [draws · seeds, …], as means over draws, [seeds, …]."""
    if len(trials.numbers) == n_seeds:
        return trials
    values, draws = (
        part.reshape(-1, n_seeds, *part.shape[1:]).mean(axis=0)
        for part in (trials.values, trials.draws)
    )
    return replace(trials, numbers=tuple(range(n_seeds)), values=values, draws=draws)


def _lost_otherwise(one: Arm, other: Arm, n_seeds: int) -> pd.DataFrame:
    """The difference of two arms' gaps of degradation, a row per axis."""
    seeds = [degradation_trials(by_seed(each, n_seeds)) for each in (one, other)]
    found = difference(*seeds)
    axes = one.measure.axes[1:]
    return pd.DataFrame(
        {
            "axis": [axis.name for axis in axes],
            "metric": DEGRADATION_GAP,
            "group": "",
            "value": found.value,
            "low": found.low,
            "high": found.high,
            "p": found.p,
            "n": [int(axis.groups["n"].iloc[axis.counts].sum()) for axis in axes],
            "verdict": "",
        }
    )


def _variants(context: FairContext, arms: Sequence[FairArm]) -> pd.DataFrame:
    """The dense model, every pooled variant, every seed."""
    rows = [_row(DENSE, DENSE, "", role=DENSE, units="none", flops=context.graph.flops())]
    for arm in arms:
        seeds = [_seed_row(context, arm, shard) for shard in arm.shards()]
        rows += [_pooled_row(arm, seeds), *seeds]
    return pd.DataFrame(rows)


def _row(name: str, method: str, base: str, **more: Any) -> dict[str, Any]:
    usual = {
        **UNCUT,
        "strength": 0.0,
        "parameters_cut": 0.0,
        "speedup": 1.0,
    }
    return variant_row(name, method, {"base": base}, **{**usual, **more})


def _arm_row(arm: FairArm, name: str, **more: Any) -> dict[str, Any]:
    return _row(
        name,
        arm.method,
        arm.method,
        units=arm.units,
        sparsity=arm.sparsity,
        strength=arm.strength,
        role=arm.role,
        **more,
    )


def _seed_row(context: FairContext, arm: FairArm, shard: FairShard) -> dict[str, Any]:
    arrays, plain = context.without_weights(shard)
    keep = arrays["keep"]
    cut, digest = cut_said(context, arm.units, keep)
    whole = context.start.n_parameters
    return _arm_row(
        arm,
        arm.id_of(shard),
        realised=share_cut(context, arm, shard),
        met=is_met(context, arm, shard),
        n_cut=int((~keep).sum()),
        seed=arm.number(shard),
        pooled=arm.pooled,
        chosen=False,
        degenerate=int(degenerate(arrays["probabilities"])),
        cut=json.dumps(cut),
        history=json.dumps(plain["history"]),
        mask_digest=digest,
        max_logit_difference=plain["max_logit_difference"],
        flops=plain["flops"],
        speedup=context.graph.flops() / plain["flops"],
        parameters_cut=(whole - plain["parameters"] + plain["n_zero"]) / whole,
    )


def by_flops(context: FairContext, arm: FairArm) -> bool:
    """Whether the arm's sparsity is a share of FLOPs."""
    return arm.units == FILTERS and context.settings.equal == FLOPS


def share_cut(context: FairContext, arm: FairArm, shard: FairShard) -> float:
    """Share that a training cut, of FLOPs where these are what is alike, else of its units."""
    keep = context.without_weights(shard)[0]["keep"]
    if by_flops(context, arm):
        return float(1.0 - context.graph.flops(keep) / context.graph.flops())
    return float(1.0 - keep.mean()) if len(keep) else 0.0


def is_met(context: FairContext, arm: FairArm, shard: FairShard) -> bool:
    """Whether the FLOPs left are within TOLERANCE of those asked; numbers of units always are those
    asked."""
    left = 1.0 - share_cut(context, arm, shard)
    return not by_flops(context, arm) or abs(left - (1.0 - arm.sparsity)) <= TOLERANCE * (
        1.0 - arm.sparsity
    )


def cut_said(context: FairContext, units: str, keep: np.ndarray) -> tuple[Values, str]:
    """What keep [units] bool cuts, JSON-able, and its digest.

    Filters by group; weights as numbers per layer, for they are many.
    """
    if units == FILTERS:
        mask = context.graph.mask(keep)
        return mask.to_dict(), mask.digest
    if not len(keep):
        return {}, ""
    layers = weight_layers(context)
    ends = np.cumsum([size for _, size in layers])[:-1]
    cut = {
        name: int((~part).sum())
        for (name, _), part in zip(layers, np.split(keep, ends), strict=True)
    }
    return cut, digest_of([list(map(list, layers)), np.packbits(keep).tobytes().hex()])


def weight_layers(context: FairContext) -> list[tuple[str, int]]:
    """(layer, its weights) of every layer whose single weights can be cut, in their order."""
    from engine.surgery.filters.graph import COUNTED

    modules = context.start.model.named_modules()
    return [
        (name, module.weight.numel()) for name, module in modules if isinstance(module, COUNTED)
    ]


def _pooled_row(arm: FairArm, seeds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The row that stands for all seeds: means, and the largest difference of logits."""
    return _arm_row(
        arm,
        arm.pooled,
        **over_repeats(seeds, "flops", "realised", "parameters_cut", "speedup"),
        n_cut=int(round(float(np.mean([row["n_cut"] for row in seeds])))),
        chosen=arm.role == SPARSITY,
        met=all(row["met"] for row in seeds),
        history="",
    )


def _layers(
    context: FairContext, arms: Sequence[FairArm]
) -> Iterator[tuple[str, list[tuple[str, int, int]]]]:
    """(group, filters, kept), or (layer, weights, kept), of every seed that cuts anything."""
    for arm in arms:
        for shard in arm.shards():
            keep = context.without_weights(shard)[0]["keep"]
            if arm.units == FILTERS:
                yield arm.id_of(shard), list(widths_after(context.graph.mask(keep)))
            elif arm.units == WEIGHTS:
                layers, cut = weight_layers(context), cut_said(context, arm.units, keep)[0]
                yield arm.id_of(shard), [(name, size, size - cut[name]) for name, size in layers]


def learned(context: FairContext, shard: FairShard) -> pd.DataFrame:
    """Every update of a training: PHASE_POINT and LOOKS."""
    table = pd.DataFrame(within(context.without_weights(shard)[0], "curve/"))
    return table.reindex(columns=[*PHASE_POINT, *LOOKS])


def _curves(context: FairContext, request: FairRequest, arms: Sequence[FairArm]) -> pd.DataFrame:
    """Every update of every seed, and the epochs of a dense model that was fitted here."""
    parts = [
        learned(context, shard).assign(variant=arm.id_of(shard))
        for arm in arms
        for shard in arm.shards()
    ]
    if request.train is not None:
        dense = context.without_weights(ImageShard("dense_weights"))[0]
        parts.append(curve_of(dense, DENSE, "train"))
    return curves_table(parts, ("variant", *PHASE_POINT, *LOOKS))


def _reached(
    context: FairContext,
    request: FairRequest,
    arms: Sequence[FairArm],
    targets: Mapping[str, float],
) -> pd.DataFrame:
    """How much training every seed took until it was as fair and as accurate as stated, on
    validation images."""
    rows = []
    for arm in arms:
        for shard in arm.shards():
            plain = context.without_weights(shard)[1]
            met = met_at(
                learned(context, shard), targets, _share(context, arm, shard), request.notion
            )
            first = first_reached(met)
            rows.append(
                {
                    "variant": arm.id_of(shard),
                    "method": arm.method,
                    "sparsity": arm.sparsity,
                    "strength": arm.strength,
                    "seed": arm.number(shard),
                    "gap_target": targets["gap"],
                    "accuracy_target": targets["accuracy"],
                    "notion": request.notion,
                    "reached": first is not None,
                    "held": bool(met["met"].tail(1).any()),
                    **_costs_of(first),
                    **{f"total_{name}": plain["spent"][name] for name in COSTS_TO_REACH},
                }
            )
    return pd.DataFrame(rows)


def _costs_of(row: pd.Series | None) -> dict[str, float]:
    names = dict(zip(COSTS_TO_REACH, ("step", "mask_updates", "examples", "seconds"), strict=True))
    return {
        name: float("nan") if row is None else float(row[column]) for name, column in names.items()
    }


def _share(context: FairContext, arm: FairArm, shard: FairShard) -> float:
    """Share that must be cut before a model counts as cut: of FLOPs, up to what they may miss."""
    cut = share_cut(context, arm, shard)
    return min(cut, arm.sparsity) - TOLERANCE if by_flops(context, arm) else cut


def met_at(
    curve: pd.DataFrame, targets: Mapping[str, float], share: float, notion: str
) -> pd.DataFrame:
    """The looks of a curve with `met`: whether gap (of the notion's kind) and accuracy were met by
    a model with this share cut. A model that is not yet as sparse as asked has met nothing, however
    fair it is."""
    looks = curve[curve["accuracy"].notna()]
    fair, sparse = looks[GAP_OF[notion]] <= targets["gap"], looks["cut"] >= share - 1e-9
    return looks.assign(met=fair & sparse & (looks["accuracy"] >= targets["accuracy"]))


def first_reached(looks: pd.DataFrame) -> pd.Series | None:
    """The first of the looks `met_at` gives that met both, as did the next one; None: never.

    A gap on few images falls below a line by luck now and then, so one look is not enough but for
    the last one.
    """
    stays = looks[looks["met"] & looks["met"].shift(-1, fill_value=True)]
    return None if stays.empty else stays.iloc[0]


def _surfaces(context: FairContext, request: FairRequest) -> dict[str, pd.DataFrame]:
    """The loss between BiFP and its ablations, where it was asked for."""
    shards = surface_shards(request)
    if not shards:
        return {}
    surface, *paths = context.fetch(shards)
    points = surface[surface["method"] != ""]
    grid = surface[surface["method"] == ""].drop(columns="method").assign(method_b="")
    along = [
        table.assign(other=shard.method) for shard, table in zip(shards[1:], paths, strict=True)
    ]
    path = pd.concat(along, ignore_index=True)
    return {
        "surface": grid[["method_b", "x", "y", "loss", "accuracy", "gap"]].reset_index(drop=True),
        "surface_points": points.reset_index(drop=True),
        "path": path[["other", "t", "loss", "accuracy", "gap", "loss_without_recalibration"]],
    }


def _kept(
    context: FairContext, request: FairRequest, arms: Sequence[FairArm]
) -> Iterator[tuple[str, Mapping[str, np.ndarray]]]:
    """Variant id and weights by name, of first seeds, of all or of none.

    Those of the cut model where filters are cut; of the whole model, with zeros, otherwise.
    """
    from engine.surgery.filters.graph import arrays_of
    from engine.tracks.fair_training.measurements.trained import model_of

    if request.train is not None:
        yield DENSE, fitted(context)
    for arm in arms:
        if request.keep_methods and arm.method not in request.keep_methods:
            continue
        for shard in arm.shards():
            wanted = request.keep_weights == "all" or (
                request.keep_weights == "first" and shard.seed == 0
            )
            if wanted and (arm.role == SPARSITY or request.keep_weights == "all"):
                yield arm.id_of(shard), arrays_of(model_of(context, shard).model)

"""From finished trainings to the tables of a fair run. Their columns are described in
docs/TABLES.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from engine.audit.session import Session
from engine.classifiers.groups import (
    NO_BAND,
    RESULTS,
    Arm,
    Band,
    Exchange,
    GroupMeasure,
    arm_difference,
    band,
    with_band,
)
from engine.classifiers.images.context import DENSE, ImageShard
from engine.classifiers.tables import (
    curve_of,
    curves_table,
    differences_table,
    image_tables,
    image_variants,
    kept_models,
    measured_arms,
    test_images,
)
from engine.core.types import Values, digest_of
from engine.stats.gap_of_means import (
    Estimate,
    Trials,
    at_ends,
    difference,
    gaps_of_means,
    level,
    unknown,
)
from engine.stats.pareto import front, hypervolume
from engine.store.runs import where, within
from engine.surgery.filters.graph import arrays_of, widths_after
from engine.surgery.filters.reading import COUNTED
from engine.surgery.ranking import TOLERANCE
from engine.tracks.fair_training.context import FairContext, FairShard
from engine.tracks.fair_training.measurements.trained import model_of
from engine.tracks.fair_training.methods import (
    ACCURACY,
    DEGRADATION,
    FILTERS,
    FLOPS,
    LOOKS,
    PHASE_POINT,
    SPENT,
    WEIGHTS,
)
from engine.tracks.fair_training.request import (
    SPARSITY,
    STRUCTURED,
    FairArm,
    FairPlan,
    FairRequest,
    compared,
    surface_shards,
    tradeoff_arms,
)

DIFFERENCES = ("accuracy", "accuracy_gap", "tpr_gap")
"""What is compared between two methods, besides the gap of degradation."""
GAP_OF = {ACCURACY: "gap", DEGRADATION: "degradation"}
"""Column of a curve that a notion is about."""


def fair_tables(
    audit: Session[FairPlan, FairContext], made: tuple[Sequence[FairArm], Mapping[str, float]]
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """All tables of the run, and sentences about the groups that a screen must show. made: the
    arms, and the gap and accuracy on validation images that were to be reached."""
    arms, targets = made
    context, request, check = audit.context, audit.request, audit.context.hooks.check
    dense, images = context.answers(ImageShard("")), test_images(context)
    measure = GroupMeasure(images, context.start.classes, request.axes, dense.astype(np.float64))
    found = measured_arms(context.answers, arms, measure, check)
    measured = {arm: replace(mine, seeds=arm.n_seeds) for arm, mine in found.items()}
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
        by_seeds = {arm: by_seed(mine) for arm, mine in measured.items()}
        tables["tradeoff"] = tradeoff_table(request, arms, by_seeds)
        tables["hypervolume"] = hypervolume_table(request, arms, by_seeds, images)
    tables |= _surfaces(context, request)
    kept = (
        (arm.id_of(shard), shard)
        for arm in arms
        if arm.method in (request.keep_methods or [arm.method])
        and (arm.role == SPARSITY or request.keep_weights == "all")
        for shard in arm.shards()
        if request.keeps(shard.seed)
    )
    tables |= kept_models(context, kept, lambda shard: arrays_of(model_of(context, shard).model))
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
        one, other = by_seed(measured[arm]), by_seed(measured[base])
        table = where(arm_difference(one, other), group="")
        lost = _lost_otherwise(one, other)
        table = pd.concat([table[table["metric"].isin(DIFFERENCES)], lost], ignore_index=True)
        yield table.assign(
            method=arm.method, base=base.method, sparsity=arm.sparsity, n_trials=arm.n_seeds
        )


def by_seed(arm: Arm) -> Arm:
    """The arm with its draws of one seed as one trial, so that seeds are compared with seeds."""
    return replace(arm, trials=arm.by_seed)


def _lost_otherwise(one: Arm, other: Arm) -> pd.DataFrame:
    """The difference of two arms' gaps of degradation, a row per axis."""
    found = difference(degradation_trials(one), degradation_trials(other))
    axes = one.measure.axes[1:]
    return pd.DataFrame(
        {
            "axis": [axis.name for axis in axes],
            "metric": METRIC,
            "group": "",
            **found.columns(),
            "n": [int(axis.groups["n"].iloc[axis.counts].sum()) for axis in axes],
            "verdict": "",
        }
    )


def _variants(context: FairContext, arms: Sequence[FairArm]) -> pd.DataFrame:
    """The dense model, every pooled variant, every seed."""

    def about(arm: FairArm) -> Values:
        return {
            "method": arm.method,
            "base": arm.method,
            "units": arm.units,
            "sparsity": arm.sparsity,
            "strength": arm.strength,
            "role": arm.role,
            "chosen": arm.role == SPARSITY,
        }

    def of_seed(arm: FairArm, shard: FairShard) -> Values:
        arrays, plain = context.without_weights(shard)
        cut, digest = cut_said(context, arm.units, arrays["keep"])
        whole = context.start.n_parameters
        return {
            "realised": share_cut(context, arm, shard),
            "met": is_met(context, arm, shard),
            "n_cut": int((~arrays["keep"]).sum()),
            "cut": json.dumps(cut),
            "mask_digest": digest,
            "speedup": context.graph.flops() / plain["flops"],
            "parameters_cut": (whole - plain["parameters"] + plain["n_zero"]) / whole,
        }

    dense = {"strength": 0.0, "parameters_cut": 0.0, "speedup": 1.0, "role": DENSE, "units": "none"}
    means = ("realised", "parameters_cut", "speedup")
    return image_variants(context, arms, {"base": ""}, about, of_seed, means, **dense)


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
    modules = context.start.model.named_modules()
    return [
        (name, module.weight.numel()) for name, module in modules if isinstance(module, COUNTED)
    ]


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
                    **{f"total_{name}": plain["spent"][name] for name in SPENT},
                }
            )
    return pd.DataFrame(rows)


def _costs_of(row: pd.Series | None) -> dict[str, float]:
    """What was spent by this row of a curve; its steps are the iterations."""
    if row is None:
        return dict.fromkeys(SPENT, np.nan)
    return {name: float(row["step" if name == "iterations" else name]) for name in SPENT}


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


# Accuracy against the gap over λ, and the area it dominates, by method: on the draws of the arms
# themselves.


def tradeoff_table(
    request: FairRequest, arms: Sequence[FairArm], measured: Mapping[FairArm, Arm]
) -> pd.DataFrame:
    """One row per method, λ and axis: means over seeds with intervals; on_front: no point of any
    method is better in accuracy and in the gap."""
    rows = []
    for arm in tradeoff_arms(request, list(arms)):
        mine = measured[arm]
        shown, lost = mine.measure.level(mine.trials), degradation(mine, mine.trials)
        for place, axis in enumerate(mine.measure.axes[1:]):
            rows.append(
                {
                    "method": arm.method,
                    "strength": arm.strength,
                    "sparsity": arm.sparsity,
                    "axis": axis.name,
                    **shown.columns("accuracy", _cell(mine, "", "accuracy")),
                    **shown.columns("gap", _cell(mine, axis.name, "accuracy_gap")),
                    **lost.columns("degradation", place),
                    "n_trials": arm.n_seeds,
                }
            )
    table = pd.DataFrame(rows).drop(columns=["accuracy_p", "gap_p", "degradation_p"])
    table["on_front"] = False
    for _, part in table.groupby("axis"):
        table.loc[part.index, "on_front"] = front(
            -part["accuracy"].to_numpy(), part["gap"].to_numpy()
        )
    return table.sort_values(["axis", "method", "strength"], kind="stable", ignore_index=True)


def hypervolume_table(
    request: FairRequest,
    arms: Sequence[FairArm],
    measured: Mapping[FairArm, Arm],
    images: pd.DataFrame,
) -> pd.DataFrame:
    """One row per method and axis: the area that the points of all λ dominate.

    Of every seed, then the mean over seeds; and that area minus BiFP-str's, seed by seed and image
    by image (base "" for none). The reference is the same for all methods. It is the accuracy of
    always naming the most frequent class, and the largest gap of any seed of any point on the axis.
    NaN where too few groups may be compared for a gap.
    """
    points = tradeoff_arms(request, list(arms))
    guess = float(images["label"].value_counts(normalize=True).iloc[0])
    rows = []
    for place, axis in enumerate(measured[points[0]].measure.axes[1:]):
        gaps = {arm: _cell(measured[arm], axis.name, "accuracy_gap") for arm in points}
        worst = float(np.max([measured[arm].trials.values[:, gaps[arm]].max() for arm in points]))
        areas = {
            method: _areas(
                [measured[arm] for arm in points if arm.method == method],
                place,
                (1.0 - guess, worst),
            )
            for method in dict.fromkeys(arm.method for arm in points)
        }
        for method, mine in areas.items():
            area, base = level(mine), areas.get(STRUCTURED) if method != STRUCTURED else None
            apart = unknown() if base is None else difference(mine, base)
            rows.append(
                {
                    "method": method,
                    "axis": axis.name,
                    "value": area.value[0],
                    "low": area.low[0],
                    "high": area.high[0],
                    "n_trials": len(mine.numbers),
                    "reference_accuracy": guess,
                    "reference_gap": worst,
                    "base": "" if base is None else STRUCTURED,
                    **apart.columns("difference", 0),
                }
            )
    return pd.DataFrame(rows)


def _areas(points: Sequence[Arm], place: int, reference: tuple[float, float]) -> Trials:
    """The dominated area of a method's points, of every seed and on every redrawn set of images, as
    one cell."""
    axis, first = points[0].measure.axes[1 + place].name, points[0].trials
    accuracy, gap = _cell(points[0], "", "accuracy"), _cell(points[0], axis, "accuracy_gap")
    values = [
        hypervolume(
            [1 - point.trials.values[seed, accuracy] for point in points],
            [point.trials.values[seed, gap] for point in points],
            reference,
        )
        for seed in range(len(first.numbers))
    ]
    wrong = np.stack([1 - point.trials.draws[..., accuracy] for point in points], axis=-1)
    apart = np.stack([point.trials.draws[..., gap] for point in points], axis=-1)
    draws = [
        [hypervolume(*each, reference) for each in zip(*seed, strict=True)]
        for seed in zip(wrong, apart, strict=True)
    ]
    none, uncounted = np.zeros(1, dtype=bool), np.full(1, np.nan)
    there = 1.0 if np.isfinite(reference[1]) else np.nan
    return Trials(
        first.numbers,
        there * np.array(values)[:, None],
        there * np.array(draws)[..., None],
        none,
        uncounted,
    )


def _cell(arm: Arm, axis: str, metric: str) -> int:
    """Where a quantity that is no group's is among the cells."""
    cells = arm.measure.cells
    return int(where(cells, axis=axis, metric=metric, group="").index[0])


# Performance degradation: does the cut cost every group the same? (BiFP, Definitions 2 and 3.)
#
# A group's degradation is the accuracy of the original model minus that of the cut one; the gap is
# the highest minus the lowest over the groups that may be compared. The original model is one fixed
# model. The gap is never negative, so it is above zero even where all groups lose alike: the null
# band holds the gaps that come from exchanging group labels between images of the same class.


METRIC = "degradation_gap"
MOST = 2.0
"""The largest gap between two changes of accuracy, each of which lies between -1 and 1."""


def degradation_gaps(arm: Arm, variant: str, number: int | None = None) -> pd.DataFrame:
    """One row of `results` (columns RESULTS) per axis, over all trials or of one; changes are NaN,
    for it is one.

    The original model's own gap is 0 by definition, so its arm has no rows.
    """
    measure = arm.measure
    if arm is measure.dense_arm:
        return pd.DataFrame(columns=list(RESULTS))
    numbers = arm.trials.numbers
    places = [*range(len(numbers))] if number is None else [numbers.index(number)]
    trials = arm.by_seed if number is None else arm.trials.only(number)
    found, shown = degradation(arm, trials), []
    for place, (axis, exchange) in enumerate(zip(measure.axes[1:], measure.exchanges, strict=True)):
        null = _null(arm, exchange, places, float(found.value[place]))
        few = len(axis.counts) < 2
        counted = axis.groups["n"].iloc[axis.counts].sum()
        first = int(where(measure.cells, axis=axis.name, metric="auc_gap").index[0])
        row = {
            "variant": variant,
            "split": measure.split,
            "axis": axis.name,
            "metric": METRIC,
            **found.columns(cell=place),
            "n": int(counted),
            "group": "",
            "verdict": measure.cells.loc[first, "verdict"] if few else "",
        }
        shown.append(with_band(row, null))
    return pd.DataFrame(shown).reindex(columns=list(RESULTS))


def degradation(arm: Arm, trials: Trials) -> Estimate:
    """The gap between the groups' mean losses, and its interval: a cell per axis."""
    found = [
        gaps_of_means(values, draws, MOST, least=np.sqrt(2) / units)
        for values, draws, units in _groups_lost(arm, trials)
    ]
    value, low, high = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Estimate(value, low, high, np.full(len(value), np.nan))


def degradation_trials(arm: Arm) -> Trials:
    """The largest mean loss of a group minus the smallest, between the same two groups in every
    trial: a cell per axis. [trials, axes], and on the redrawn images [trials, n_boot, axes]."""
    found = [at_ends(*lost) for lost in _groups_lost(arm, arm.trials)]
    values, draws, units = (np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))
    return Trials(arm.trials.numbers, values, draws, np.ones(len(found), dtype=bool), units, MOST)


def _groups_lost(arm: Arm, trials: Trials) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Accuracy lost by the groups of every axis, [trials, groups, 1], on the redrawn images
    [trials, n_boot, groups, 1], and the groups' images, [groups, 1]."""
    dense = arm.measure.dense_arm.trials
    lost, drawn = dense.values - trials.values, dense.draws - trials.draws
    for axis in arm.measure.axes[1:]:
        rows = where(arm.measure.cells, axis=axis.name, metric="accuracy", verdict="").index
        yield lost[:, rows, None], drawn[..., rows, None], trials.units[rows, None]


def _null(arm: Arm, exchange: Exchange, places: list[int], value: float) -> Band:
    """Band of the gap between mean losses under exchanged labels."""
    if not exchange.n_groups:
        return NO_BAND
    (before,) = arm.measure.dense_arm.right
    sizes = np.stack([(exchange.codes == group).sum(axis=0) for group in range(exchange.n_groups)])
    parts = []
    for place in places:
        lost = (before.astype(float) - arm.right[place])[exchange.rows]
        sums = np.stack([lost @ (exchange.codes == group) for group in range(exchange.n_groups)])
        parts.append(sums / sizes)
    return band(value, np.ptp(np.mean(parts, axis=0), axis=0))

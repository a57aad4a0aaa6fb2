"""The whole audit of an image classifier on one page: validate, load, choose filters, cut, retrain,
measure, write."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.request import Growth
from engine.audit.session import (
    Executor,
    Grown,
    Session,
    Tables,
    timed,
)
from engine.classifiers.audit import ClassifierAudit, kept_in
from engine.classifiers.groups import OVR, GroupMeasure, arm_difference, group_warnings
from engine.classifiers.groups import Arm as MeasuredArm
from engine.classifiers.images.context import DENSE, TEST, ImageContext, ImageShard
from engine.classifiers.images.dense import (
    cost_row,
    cut_and_proved,
    data_meta,
    dense_phases,
    model_meta,
    starting_model,
)
from engine.classifiers.images.request import CLASS_AXIS, recipe_of
from engine.classifiers.tables import (
    brought_warnings,
    curve_of,
    curves_table,
    differences_table,
    image_tables,
    image_variants,
    input_notes,
    kept_models,
    kept_weights,
    layers_table,
    measured_arms,
    model_warnings,
    test_images,
    uncut_warnings,
)
from engine.core.errors import Fault
from engine.core.types import FilterMask, Hooks, Values, rng
from engine.data.images.changes import CAT_AND_DOG, Artefact, Underrepresent, named_classes
from engine.data.images.load import ImageSet
from engine.models.runtime import with_backoff
from engine.report.charts.panel import Choice
from engine.report.contents import default_reading
from engine.report.hand_sets import (
    MOST_TRIED,
    Chosen,
    HandSet,
    HandSets,
    check_set,
    chosen_of,
    classifier_rows,
    rows_of,
    told_of,
)
from engine.resident.warm import Warm
from engine.stats.gap_of_means import Trials, difference, level, unknown
from engine.store.runs import Run, Store, where, within
from engine.surgery.filters.graph import masked_filters, widths_after, with_weights
from engine.surgery.named import checked_filters, cut_of, filter_mask
from engine.tracks.image_classifiers.effects import (
    EFFECT_KEYS,
    ahead_of_set,
    effects_said,
    effects_table,
    nothing_said,
)
from engine.tracks.image_classifiers.measurements import image_measurements
from engine.tracks.image_classifiers.measurements.trial import AT_ONCE as SETS_AT_ONCE
from engine.tracks.image_classifiers.measurements.trial import RANDOM, SETS, chosen_shard
from engine.tracks.image_classifiers.request import (
    Arm,
    FilterPlan,
    ImagePlan,
    ImageRequest,
    arms_of,
    loss_shares,
    validate_images,
)
from engine.tracks.image_classifiers.words import (
    FILTERS,
    NOT_RETRAINED,
    in_units,
    said,
    units_of,
)
from engine.training.fit import probabilities

# From finished trials to the tables of an image run. Their columns are described in
# docs/TABLES.md.


DIFFERENCES = ("auc", "accuracy", "auc_gap", "accuracy_gap")
"""What is compared between an arm with the PW loss and the same method without."""
PLAIN = "plain"


def filter_tables(
    audit: Session[FilterPlan, ImageContext], arms: Sequence[Arm]
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """All tables of the run, and sentences about the groups that a screen must show."""
    context, request, check = audit.context, audit.request, audit.context.hooks.check
    measure = GroupMeasure(
        test_images(context),
        context.start.classes,
        request.axes,
        context.answers(ImageShard("")).astype(np.float64),
        multi_class=request.multi_class,
    )
    measured = measured_arms(context.answers, arms, measure, check)
    variants = _variants(context, arms)
    tables = image_tables(
        context, arms, measure, measured, variants, _masks(context, arms), arms, check
    )
    tables["arm_differences"] = differences_table(
        _differences(measured), "base", "loss", "speedup", rates=False
    )
    tables["scores"] = _scores(context, arms)
    tables["curves"] = _curves(context, request, arms)
    if sound := [
        found.results
        for arm, mine in measured.items()
        if (found := mine.without_degenerate(arm.pooled))
    ]:
        tables["without_degenerate"] = pd.concat(sound, ignore_index=True)
    by_name = {DENSE: measure.dense_arm, **{arm.pooled: mine for arm, mine in measured.items()}}
    affected = affected_table(affected_classes(request, context.images), by_name)
    if len(affected):
        tables["affected"] = affected
    if request.loss_share:
        tables["loss_share"] = _loss_shares(context, request)
    kept = (
        (arm.id_of(shard), shard)
        for arm in arms
        for shard in arm.shards()
        if request.keeps(shard.trial)
    )
    tables |= kept_models(
        context, kept, lambda shard: within(context.fetch_arrays(shard)[0], "weights/")
    )
    return tables, list(measure.notes)


def _differences(measured: Mapping[Arm, MeasuredArm]) -> Iterator[pd.DataFrame]:
    """Every arm with the PW loss, or with one of its parts, against the same method with the plain
    loss: all images, then gaps."""
    plain = {(arm.method, arm.speedup): mine for arm, mine in measured.items() if arm.loss == PLAIN}
    for arm, mine in measured.items():
        if arm.loss != PLAIN and (arm.method, arm.speedup) in plain:
            table = arm_difference(mine, plain[arm.method, arm.speedup])
            yield table[table["metric"].isin(DIFFERENCES)].assign(
                base=arm.method, loss=arm.loss, speedup=arm.speedup, n_trials=arm.n_trials
            )


def _variants(context: ImageContext, arms: Sequence[Arm]) -> pd.DataFrame:
    """The dense model, then every arm with its trials."""

    def about(arm: Arm) -> Values:
        names = {"method": arm.name, "base": arm.method}
        return {**names, "loss": arm.loss, "speedup": arm.speedup}

    def of_trial(arm: Arm, shard: ImageShard) -> Values:
        arrays, plain = context.without_weights(shard)
        mask = context.graph.mask(arrays["keep"])
        return {
            "achieved": context.graph.flops() / plain["flops"],
            "sparsity": mask.sparsity,
            "realised": mask.sparsity,
            "n_cut": mask.n_cut,
            "met": plain["met"],
            "cut": json.dumps(mask.to_dict()),
            "mask_digest": mask.digest,
        }

    first, means = {"base": "", "loss": "", "speedup": 1.0}, ("achieved", "sparsity", "realised")
    return image_variants(context, arms, first, about, of_trial, means, achieved=1.0)


def _scores(context: ImageContext, arms: Sequence[Arm]) -> pd.DataFrame:
    """One row per filter of every trial: what the method gave it, and whether it stayed."""
    layer = context.graph.group_of
    starts = np.array([group.start for group in context.graph.groups])
    names = np.array([group.root for group in context.graph.groups], dtype=object)
    units = np.arange(context.graph.total)
    parts = []
    for arm in arms:
        for shard in arm.shards():
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
    """Widths of every group after the cut, by trial."""
    return {
        arm.id_of(shard): widths_after(
            context.graph.mask(context.without_weights(shard)[0]["keep"])
        )
        for arm in arms
        for shard in arm.shards()
    }


def _curves(context: ImageContext, request: ImageRequest, arms: Sequence[Arm]) -> pd.DataFrame:
    """Loss by epoch of every fit, and by iteration of every pruning."""
    named = [(ImageShard("dense_weights"), DENSE, "train")] if request.train is not None else []
    for arm in arms:
        for shard in arm.shards():
            named += [
                (chosen_shard(shard), arm.id_of(shard), "prune"),
                (shard, arm.id_of(shard), "retrain"),
            ]
    parts = (
        curve_of(context.without_weights(shard)[0], name, phase) for shard, name, phase in named
    )
    return curves_table(parts, ("variant", "phase", "step", "loss", "flops"))


def _loss_shares(context: ImageContext, request: ImageRequest) -> pd.DataFrame:
    parts = [
        table.rename(columns={"loss": "nats"}).assign(
            method=arm.name, base=arm.method, loss=arm.loss, trial=shard.trial
        )
        for arm, shards in loss_shares(request).items()
        for shard, table in zip(shards, context.fetch(shards), strict=True)
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


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
        change = difference(mine, dense) if name != "dense" else unknown()
        rows.append({**row, **change.columns("delta", 0)})
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
        ranks=np.ones(1, dtype=bool),
    )


ImageAudit = Session[FilterPlan, ImageContext]


def context_of(
    plan: FilterPlan,
    store: Store | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
) -> ImageContext:
    """What a plan is measured in; measurements are kept in the store, in memory where there is
    none."""
    request = plan.request
    return ImageContext(
        starting_model(plan),
        plan.images,
        request.settings(),
        image_measurements(),
        hooks=hooks,
        plan=plan,
        opener=f"{__name__}:{context_of.__name__}",
        mirror=request.mirrors,
        loss_share=request.loss_share,
        **kept_in(store),
    )


def compute(audit: ImageAudit) -> list[Arm]:
    """Every measurement of the run, the long ones first in the order they need each other."""
    request, arms = audit.request, arms_of(audit.request)
    trials = [shard for arm in arms for shard in arm.shards()]
    audit.finish_all(
        {
            **dense_phases(request),
            "choose filters": list(dict.fromkeys(chosen_shard(shard) for shard in trials)),
            "cut and retrain": trials,
            "measure cost": [ImageShard("cost"), *(arm.cost for arm in arms)],
            "share of the loss": [
                shard for shards in loss_shares(request).values() for shard in shards
            ],
        }
    )
    return arms


def run_meta(
    audit: ImageAudit, arms: Sequence[Arm], tables: Tables, notes: Sequence[str]
) -> dict[str, Any]:
    """run.json: what was asked, of which model, on which images, with which code, and what must be
    known about it."""
    plan, context, request = audit.plan, audit.context, audit.request
    model, warnings = model_meta(plan, context), image_warnings(plan, context, tables, notes)
    return {
        **audit.meta(f"{plan.model.name} on {plan.images.name}"),
        "experiment": request.experiment,
        "model": model,
        "data": data_meta(plan, tables),
        "warnings": [in_units(text, model.get("units", FILTERS)) for text in warnings],
    }


AUDIT = ClassifierAudit(validate_images, context_of, compute, filter_tables, run_meta)
run_image_audit = AUDIT.run


def image_warnings(
    plan: ImagePlan, context: ImageContext, tables: Tables, notes: Sequence[str]
) -> list[str]:
    """Sentences, most general first."""
    images = plan.images
    found = [
        *input_notes(images, model_warnings(plan), plan.is_fresh),
        *brought_warnings(tables["results"]),
        *notes,
        *group_warnings(tables["groups"]),
        *_trials(tables["variants"]),
        *_without(tables),
        *_stopped(plan, tables["curves"]),
    ]
    if plan.request.multi_class == OVR and len(images.classes) > 2:
        found.append(
            "AUC is one-vs-rest: the mean over classes of each against all others, as in the"
            " published code."
        )
    if plan.request.trials < 3:
        found.append(
            f"Trials: only {plan.request.trials}. Intervals say little about the luck of a"
            " training."
        )
    return list(dict.fromkeys([*found, *uncut_warnings(context)]))


def _without(tables: Tables) -> list[str]:
    """AUC of every variant with degenerate trials, with them and without."""
    if "without_degenerate" not in tables:
        return []
    both = [
        where(table, metric="auc", axis="").set_index("variant")["value"]
        for table in (tables["results"], tables["without_degenerate"])
    ]
    said = [f"{name} {both[0][name]:.3f} / {value:.3f}" for name, value in both[1].items()]
    return [f"AUC with degenerate trials / without: {'; '.join(said)}."]


def _stopped(plan: ImagePlan, curves: pd.DataFrame) -> list[str]:
    """How often fitting stopped early, where it could."""
    found = []
    for place, recipe in plan.request.recipes.items():
        if recipe.get("patience"):
            mine = curves[curves["phase"] == place].groupby("variant").size()
            n = int((mine < recipe_of(recipe).epochs).sum())
            found.append(
                f"{n} of {len(mine)} fits ({place}) stopped early; each has the weights of its"
                " epoch with the lowest loss on validation images."
            )
    return found


def _trials(variants: pd.DataFrame) -> list[str]:
    """Degenerate trials and missed targets."""
    trials = variants[variants["seed"] >= 0]
    found = []
    if n := int(trials["degenerate"].sum()):
        found.append(
            f"{n} of {len(trials)} trials ended with a model that predicts one class only; they "
            "are marked."
        )
    wrong = trials[~trials["met"].astype(bool)]
    if len(wrong):
        worst = (wrong["speedup"] / wrong["achieved"] - 1).abs().max()
        found.append(
            f"{len(wrong)} of {len(trials)} trials miss the FLOPs asked for by more than 0.1 %,"
            f" by up to {100 * worst:.1f} %: no exchange of filters was found."
        )
    return found


# More of a finished audit: filters that a person chose, silenced in the dense model, measured
# group by group.
#
# Nothing is trained again, unlike for the audit's own variants. A set is tried on validation
# images, or on training images where there are none, before it is measured on test images. Then
# it is also cut for real, proved to be the masked model, and costs what that costs. What comes
# out is an addition to the run (engine/store/runs.py). No torch until something is measured.


def chosen_filters(run: Run, request: Growth) -> tuple[Chosen, str]:
    """The set that a growth asks of a run, and the split of its images. RequestError where there is
    none."""
    level = Fault(
        "speedup",
        "of an image classifier's method is trained: it is asked as an audit with one level more.",
        f"Give {units_of(run)}, or start the audit again with the speedup added.",
    )
    check_set(run, request, level, int(run.model["n_filters"]))
    units = checked_filters(run, request.units)
    return chosen_of(run, request, filter_mask(run, units), units, lambda row: cut_of(run, row))


def told(before: Run, after: Run, growth: Growth) -> Values:
    """As `told_of` says it, with what was predicted; of effects the largest in a sentence."""
    if growth.effects:
        return told_of(before, after, TEST, {}, (), [effects_said(after, growth.axis)])
    chosen, split = chosen_filters(after, growth)
    choice = Choice(chosen.name, growth.axis, 1.0, reading=default_reading(before))
    ahead = ahead_of_set(before, choice, chosen.units)
    notes = [said(before, NOT_RETRAINED), ahead.said if ahead else nothing_said(before, choice)]
    rows = classifier_rows(after, growth, chosen.name, split, ahead)
    return told_of(before, after, split, {chosen.name: chosen.mask.to_dict()}, rows, notes)


# What the dense model of an audit answers without filters that a person chose, and what these
# answers are worth.


AT_ONCE = 1000
"""Images between two reports of progress."""


def measured_filters(
    grown: Grown, store: Store, hooks: Hooks, executor: Executor, warm: Warm | None
) -> tuple[ImageAudit, HandSet]:
    """The set on its split's images, with the dense model's answers; on test images it is also cut
    for real."""
    audit = _reopened(grown, store, hooks, executor, warm)
    context, chosen = audit.context, grown.variants[0]
    places = tried_rows(context, grown.split)
    images = context.images.table.iloc[places].reset_index(drop=True)
    # What the audit stored of the dense model's answers to these images, None where
    # nothing.
    stored = (
        None
        if grown.split != TEST or not context.kept(ImageShard("dense_answers"))
        else context.answers(ImageShard("")).astype(np.float64)
    )
    dense = _answers(audit, places, None) if stored is None else stored
    answers = _answers(audit, places, chosen.mask)
    with timed(audit.progress, "statistics", "groups and intervals"):
        measure = GroupMeasure(
            images,
            context.start.classes,
            audit.request.axes,
            dense,
            split=grown.split,
            multi_class=audit.request.multi_class,
        )
        rows = rows_of(measure.dense(), measure.variant([answers]), chosen.name, (0,))
    flops = float(context.graph.flops(chosen.mask.keep()))
    speedup = float(context.graph.flops()) / flops
    columns = {
        "speedup": speedup,
        "achieved": speedup,
        "flops": flops,
        "cut": json.dumps(chosen.mask.to_dict()),
    }
    tables: dict[str, pd.DataFrame] = {}
    if grown.split == TEST:
        more, tables = _cut(audit, grown)
        columns |= more
    return audit, HandSet(images, {0: dense}, {0: answers}, rows, columns, **tables)


def _reopened(
    grown: Grown, store: Store, hooks: Hooks, executor: Executor, warm: Warm | None
) -> ImageAudit:
    """The audit with its dense model, where it fitted that with the weights it kept."""
    name = f"image classifier of {grown.run.id} {store.root}"
    audit = AUDIT.reopened(
        grown.plan, store, hooks, executor, warm, name, lambda one: 8 * one.start.n_parameters
    )
    context = audit.context
    if context.settings.train is not None:
        context.dense = with_weights(context.start, kept_weights(grown.run, "dense"))
    return audit


def measured_effects(
    grown: Grown, store: Store, hooks: Hooks, executor: Executor, warm: Warm | None
) -> tuple[ImageAudit, dict[str, pd.DataFrame]]:
    """What every filter does alone, and what random sets do."""
    audit = _reopened(grown, store, hooks, executor, warm)
    singles = [ImageShard("effects", group.root) for group in audit.context.graph.groups]
    drawn = [ImageShard("effects", RANDOM, trial=one) for one in range(SETS // SETS_AT_ONCE)]
    audit.finish_all({"silence each filter": singles, "silence random sets": drawn})
    alone, sets = (
        pd.concat(audit.context.fetch(part), ignore_index=True) for part in (singles, drawn)
    )
    return audit, {"effects": effects_table(alone), "effect_sets": sets}


HAND = HandSets("image_id", chosen_filters, measured_filters, measured_effects, EFFECT_KEYS)
grow, check_growth = HAND.grow, HAND.check


def tried_rows(context: ImageContext, split: str) -> np.ndarray:
    """Positions of a split's images in the table of images, [n] int: of another than test at most
    MOST_TRIED, drawn once and for all."""
    rows = context.rows(split)
    if split == TEST or len(rows) <= MOST_TRIED:
        return rows
    return np.sort(
        rng("tried images", context.settings.first_seed, split).permutation(rows)[:MOST_TRIED]
    )


def _answers(audit: ImageAudit, places: np.ndarray, mask: FilterMask | None) -> np.ndarray:
    """Answers to some images with filters silenced, [images, classes] float64; not kept: it takes
    seconds."""
    context, parts = audit.context, []
    model, read = context.dense, context.images.read
    what = "the dense model" if mask is None else "the model without these filters"
    for start in range(0, len(places), AT_ONCE):
        part = places[start : start + AT_ONCE]
        with timed(audit.progress, "measure", f"{what}, image {start} of {len(places)}"):

            def run(batch: int, part: np.ndarray = part) -> np.ndarray:
                return probabilities(
                    model.model, part, read, model.prepared, batch, context.hooks.check
                ).numpy()

            with masked_filters(model, context.graph, mask or FilterMask(context.graph.widths)):
                parts.append(with_backoff(run, context.settings.batch))
    return np.concatenate(parts).astype(np.float64)


def _cut(audit: ImageAudit, grown: Grown) -> tuple[Values, dict[str, pd.DataFrame]]:
    """The set cut for real and proved to be the masked model: what its row says of that, its cost
    and the widths it leaves."""
    context, chosen = audit.context, grown.variants[0]
    with timed(audit.progress, "cut", "and compare with the masked model"):
        small, history, agreement = cut_and_proved(context, context.dense, chosen.mask, chosen.name)
        apart = agreement.max_logit_difference
        costs = cost_row(context, small).assign(
            variant=chosen.name, max_logit_difference=apart, agrees=True
        )
    layers = layers_table({f"{chosen.name}#0": widths_after(chosen.mask)})
    return (
        {"history": json.dumps(history), "max_logit_difference": apart},
        {"costs": costs, "layers": layers},
    )

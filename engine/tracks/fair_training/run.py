"""A whole fair training on one page: validate, load, train and cut with every method, measure,
write."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from engine.audit.session import Session, Tables
from engine.classifiers.audit import ClassifierAudit, kept_in
from engine.classifiers.groups import group_warnings, words_of
from engine.classifiers.images.context import DENSE, VALIDATION, ImageShard
from engine.classifiers.images.dense import (
    data_meta,
    dense_phases,
    model_meta,
    starting_model,
)
from engine.classifiers.layout import MIN_IMAGES, MIN_PER_CLASS
from engine.classifiers.tables import brought_warnings, input_notes, model_warnings, uncut_warnings
from engine.core.errors import refusal
from engine.core.files import json_able
from engine.core.types import Hooks, Values
from engine.core.words import AXES
from engine.stats.resampling import ALL_HARMED, LEVELLED
from engine.store.runs import Store
from engine.tracks.fair_training.context import CORNERS, FairContext, FairShard, Look
from engine.tracks.fair_training.measurements import fair_measurements
from engine.tracks.fair_training.measurements.trained import trained_shard
from engine.tracks.fair_training.methods import DEGRADATION, WEIGHTS, fair_methods
from engine.tracks.fair_training.request import (
    FairArm,
    FairPlan,
    FairRequest,
    arms_of,
    group_shares,
    surface_shards,
    validate_fair,
)
from engine.tracks.fair_training.tables import fair_tables

# What a reader must know before reading any chart of a fair run.


MIN_SEEDS = 3
FEW_PASSES = 10
"""Passes over the images below which a training is short; the paper does not say how long it
trained."""
FEW = 30
"""Images of one class in one group below which a training learns that group from a handful."""
REACH = 1.96
"""Standard errors within which a gap counts as noise."""
CLAIMED = 0.94
"""Share of the iterations that BiFP's paper claims to save (its Fig. 6)."""


def fair_warnings(
    plan: FairPlan,
    context: FairContext,
    tables: Mapping[str, pd.DataFrame],
    targets: Mapping[str, float],
    notes: Sequence[str],
) -> list[str]:
    """Sentences, most general first."""
    request, variants = plan.request, tables["variants"]
    parts = (
        input_notes(plan.images, model_warnings(plan), plan.is_fresh),
        brought_warnings(tables["results"]),
        notes,
        group_warnings(tables["groups"]),
        _few_images(plan, context),
        _levelled(variants, tables["results"]),
        _degenerate(variants),
        _few_seeds(request),
        _target(context, targets, request.fair_gap),
        _length(context),
        _looks(context),
        _weights(variants),
        _effort(context, variants),
        _masks(request, variants),
        _surface(tables, context),
        uncut_warnings(context),
    )
    return list(dict.fromkeys(chain(*parts)))


def _few_images(plan: FairPlan, context: FairContext) -> Iterator[str]:
    """Groups of the fair axis with few training images of a class."""
    table = context.images.table.iloc[context.tuned]
    names = [context.groups[code] if code >= 0 else "" for code in context.codes[context.tuned]]
    counts = table.assign(group=names).groupby(["group", "label"]).size()
    said = []
    for group in context.groups:
        for place, name in enumerate(plan.images.classes):
            n = int(counts.get((group, place), 0))
            if n < FEW:
                said.append(f"{n} of {group} are {name}")
    if said:
        yield f"Few images to train on by {context.settings.axis}: {'; '.join(said)}."


def _levelled(variants: pd.DataFrame, results: pd.DataFrame) -> Iterator[str]:
    """Methods whose gap of accuracy got smaller because the best group got worse; all three changes
    are told apart."""
    chosen = list(variants.loc[variants["chosen"], "variant"])
    for axis, rows in results[results["axis"] != ""].groupby("axis", sort=False):
        ends = {metric: part.set_index("variant") for metric, part in rows.groupby("metric")}
        if not {"accuracy_gap", "worst_accuracy", "best_accuracy"} <= set(ends):
            continue
        dense = ends["accuracy_gap"].loc[DENSE]
        if dense["value"] <= dense["null_high"]:  # no gap to begin with, so none became smaller
            continue
        paid = [
            name
            for name in chosen
            if ends["accuracy_gap"]["delta_high"].get(name, 0.0) < 0
            and words_of(
                *(ends[end].loc[name].to_dict() for end in ("worst_accuracy", "best_accuracy"))
            )
            in (LEVELLED, ALL_HARMED)
        ]
        if paid:
            yield (
                f"{AXES.get(str(axis), axis)}: the gap of accuracy got smaller because the best"
                f" group got worse, not because the worst got better: {', '.join(paid)}."
            )


def _degenerate(variants: pd.DataFrame) -> Iterator[str]:
    seeds = variants[variants["seed"] >= 0]
    if n := int(seeds["degenerate"].sum()):
        yield (
            f"{n} of {len(seeds)} trained models predict one class only: their small gap means"
            " nothing."
        )


def _few_seeds(request: FairRequest) -> Iterator[str]:
    if request.seeds < MIN_SEEDS:
        yield f"Seeds: only {request.seeds}. Intervals say little about the luck of a training."


def _target(
    context: FairContext, targets: Mapping[str, float], stated: float | None
) -> Iterator[str]:
    """Whether there is a gap to be reached, which one, and whether it can be told from none on the
    images looked at."""
    if math.isnan(targets["gap"]) and context.look.compared.sum() > 1:
        own, high = context.look.of(context.look.dense)["gap"], context.look.null_band().high
        yield (
            f"The starting model's validation gap ({own:.3f}) lies inside its own null band (up "
            f"to {high:.3f}) on {len(context.looked)} images. There is no gap to mend, so no "
            "target was tried."
        )
    elif math.isnan(targets["gap"]):
        yield (
            f"Fewer than two groups have {MIN_IMAGES} images and {MIN_PER_CLASS} of each class "
            f"among the {len(context.looked)} validation images used. No gap can be compared "
            "there, so the time to a stated gap is unknown."
        )
    elif context.settings.notion == DEGRADATION:  # its noise is not that of the dense model's gap
        if stated is None:
            yield (
                "The validation gap to be reached compares what groups lost against the dense "
                "model. None was stated, so half of the dense model's gap of accuracy "
                f"({targets['gap']:.3f}) is taken."
            )
    elif targets["gap"] <= (noise := REACH * context.look.gap_error()):
        yield (
            f"The validation gap to be reached ({targets['gap']:.3f}) is within the noise of "
            f"{len(context.looked)} images (±{noise:.3f}), so the time to reach it is partly luck."
        )


def _length(context: FairContext) -> Iterator[str]:
    settings = context.settings
    passes = settings.iterations * settings.recipe.batch / max(len(context.tuned), 1)
    if passes < FEW_PASSES:
        yield (
            f"{settings.iterations} iterations of {settings.recipe.batch} images are {passes:.3g} "
            "passes over the images, a short training. Methods that need a longer one may look "
            "worse than they are."
        )


def _looks(context: FairContext) -> Iterator[str]:
    """Whether the paper's saving could show at all."""
    settings = context.settings
    most = max(0.0, 1.0 - settings.check_every / settings.iterations)
    if most < CLAIMED:
        finest = max(1, math.floor((1.0 - CLAIMED) * settings.iterations))
        yield (
            f"Looked at every {settings.check_every} of {settings.iterations} updates, so a saving"
            f" of more than {most:.0%} cannot show. For the {CLAIMED:.0%} that the paper claims,"
            f" look every {finest} updates, or train longer."
        )


def _weights(variants: pd.DataFrame) -> Iterator[str]:
    named = variants.loc[variants["units"] == WEIGHTS, "method"].unique()
    if len(named):
        yield (
            f"Single weights are set to zero by {', '.join(named)}: the model keeps its shape, and"
            " nothing gets faster."
        )


def _bifp_settings(
    settings: Mapping[str, Values], names: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Settings of those methods that are BiFP, by name: as asked, else as declared."""
    found = {}
    for name in dict.fromkeys(names):
        method = fair_methods().get(name)
        if method is not None and name.startswith("bifp") and not method.widths_of:
            found[name] = {item.name: item.default for item in method.settings} | dict(
                settings.get(name, {})
            )
    return found


def _effort(context: FairContext, variants: pd.DataFrame) -> Iterator[str]:
    """What makes BiFP look cheaper or better tuned than what it is compared with."""
    own = _bifp_settings(context.settings.methods, variants["method"])
    if own:
        times = max(1.0 + (1.0 - mine["settle"]) / mine["inner"] for mine in own.values())
        yield (
            "BiFP reads another batch for every update of its mask. So at equal weight updates it "
            f"sees up to {times:.3g} times the images. The usual learning rate of its mask was"
            " chosen on avatars; no setting of the other methods was searched."
        )


def _masks(request: FairRequest, variants: pd.DataFrame) -> Iterator[str]:
    """BiFP whose settings leave the mask as it was at first."""
    names = [*variants["method"], *(CORNERS if request.surface else ())]
    still = [
        name
        for name, mine in _bifp_settings(request.method_settings, names).items()
        if mine["mask_rate"] == 0 or mine["inner"] > (1.0 - mine["settle"]) * request.iterations
    ]
    if still:
        yield f"The mask of {', '.join(still)} is never updated with these settings."


def _surface(tables: Mapping[str, pd.DataFrame], context: FairContext) -> Iterator[str]:
    """A surface that could not be drawn, and images that were trained on in place of others."""
    if "surface" in tables and tables["surface"].empty:
        yield (
            "BiFP and its two ablations lie on one line, so there is no plane through them to"
            " look at."
        )
    if context.settings.tune_on == VALIDATION:
        yield (
            f"Models were cut and trained on {len(context.tuned)} validation images, as in the"
            f" paper; {len(context.looked)} others of them were looked at."
        )


FairAudit = Session[FairPlan, FairContext]


def context_of(
    plan: FairPlan,
    store: Store | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
) -> FairContext:
    """What a plan is measured in; measurements are kept in the store, in memory where there is
    none."""
    return FairContext(
        starting_model(plan),
        plan.images,
        plan.request.settings(),
        fair_measurements(),
        hooks=hooks,
        plan=plan,
        opener=f"{__name__}:{context_of.__name__}",
        mirror=plan.request.mirrors,
        **kept_in(store),
    )


def compute(audit: FairAudit) -> tuple[list[FairArm], dict[str, float]]:
    """Every measurement of the run, in the order they need each other: the arms, and the gap and
    accuracy that were to be reached.

    RequestError for a stated gap that is met at the start or inside the null band, before anything
    else is trained.
    """
    request, context, arms = audit.request, audit.context, arms_of(audit.request)
    if request.fair_gap is not None:
        audit.finish_all(dense_phases(request))
        refuse_target(context.look, request)
    audit.finish_all(phases_of(request, arms))
    return arms, targets_of(context, request)


def phases_of(request: FairRequest, arms: Sequence[FairArm]) -> dict[str, list[Any]]:
    """The measurements of a run by phase. Seeds come one after the other, so that every method has
    its first early."""
    surfaces = surface_shards(request)
    trained = [
        shard
        for seed in range(request.seeds)
        for arm in arms
        for shard in arm.shards()
        if shard.seed == seed
    ]
    controls = [shard for shard in trained if fair_methods()[shard.method].widths_of]
    return {
        **dense_phases(request),
        "train and cut": [shard for shard in trained if shard not in set(controls)],
        "train in another method's widths": controls,
        "train BiFP and its ablations": _corners(surfaces, trained),
        "loss between models": surfaces,
        "measure cost": [ImageShard("cost"), *(arm.cost for arm in arms)],
    }


def _corners(surfaces: Sequence[FairShard], trained: Sequence[FairShard]) -> list[FairShard]:
    """Trainings that the loss surface needs and that the request does not ask for otherwise."""
    needed = [trained_shard(shard, name) for shard in surfaces for name in (*CORNERS, shard.method)]
    return [shard for shard in dict.fromkeys(needed) if shard not in set(trained)]


def targets_of(context: FairContext, request: FairRequest) -> dict[str, float]:
    """gap and accuracy on validation images that count as fair and as accurate: as asked, or by the
    dense model's.

    The gap is of the request's notion. Where none was asked for, it is where half of the dense
    model's excess over its null band is gone. The dense model has no degradation: there it is half
    of its gap of accuracy. NaN where fewer than two groups may be compared, or the dense
    model has no excess.
    """
    look = context.look
    dense = look.of(look.dense)
    gap = request.fair_gap
    if gap is None:
        gap = dense["gap"] / 2 if request.notion == DEGRADATION else _half_of_excess(look)
    gap = gap if look.compared.sum() > 1 else math.nan
    return {"gap": float(gap), "accuracy": float(dense["accuracy"] - request.within)}


def _half_of_excess(look: Look) -> float:
    """The gap at which half of the dense model's excess over its null band is gone; NaN where there
    is no excess."""
    gap, most = look.of(look.dense)["gap"], look.null_band().high
    return (gap + most) / 2 if gap > most else math.nan


def refuse_target(look: Look, request: FairRequest) -> None:
    """RequestError for a stated gap of accuracy that the dense model meets, or that chance alone
    would give."""
    gap, most, stated = look.of(look.dense)["gap"], look.null_band().high, request.fair_gap
    if stated is None or request.notion == DEGRADATION or not math.isfinite(most):
        return
    images = f"on the {len(look.labels)} validation images looked at"
    fix = (
        f"Give a gap between {most:.3f} and {gap:.3f}."
        if gap > most
        else "Leave it out: there is no gap to mend."
    )
    if stated >= gap:
        what = f"{stated:g} is met at the start: the starting model's gap is {gap:.3f} {images}."
        raise refusal("fair gap", what, fix)
    if stated <= most:
        what = (
            f"{stated:g} lies inside the null band {images}: chance alone gives up to {most:.3f}."
        )
        raise refusal("fair gap", what, fix)


def run_meta(
    audit: FairAudit,
    made: tuple[Sequence[FairArm], Mapping[str, float]],
    tables: Tables,
    notes: Sequence[str],
) -> dict[str, Any]:
    """run.json: what was asked, of which model, on which images, with which code, and what must be
    known about it."""
    plan, context, request = audit.plan, audit.context, audit.request
    shares, targets = group_shares(plan.images, request.axes[0], context.tuned), made[1]
    return {
        **audit.meta(f"{plan.model.name} trained fairly on {plan.images.name}"),
        "experiment": request.experiment,
        "model": model_meta(plan, context),
        "data": {**data_meta(plan, tables), "fair_axis": request.axes[0], "group_shares": shares},
        "targets": json_able(dict(targets)),
        "warnings": fair_warnings(plan, context, tables, targets, notes),
    }


AUDIT = ClassifierAudit(validate_fair, context_of, compute, fair_tables, run_meta)
run_fair_audit = AUDIT.run

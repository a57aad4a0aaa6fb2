"""A whole fair training on one page: validate, load, train and cut with every method, measure,
write."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.audit.session import Session, Tables
from engine.classifiers.audit import ClassifierAudit, kept_in
from engine.classifiers.images.context import ImageShard
from engine.classifiers.images.dense import (
    data_meta,
    dense_phases,
    model_meta,
    starting_model,
)
from engine.core.errors import Fault, RequestError
from engine.core.files import json_able
from engine.core.types import Hooks
from engine.store.runs import Store
from engine.tracks.fair_training.arms import FairArm, arms_of, surface_shards
from engine.tracks.fair_training.context import CORNERS, FairContext, FairShard, Look
from engine.tracks.fair_training.measurements import fair_measurements
from engine.tracks.fair_training.measurements._work import trained_shard
from engine.tracks.fair_training.methods.base import DEGRADATION, fair_methods
from engine.tracks.fair_training.request import FairPlan, FairRequest, group_shares, validate_fair
from engine.tracks.fair_training.tables import fair_tables
from engine.tracks.fair_training.warnings import fair_warnings

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
        raise RequestError(Fault("fair gap", what, fix))
    if stated <= most:
        what = (
            f"{stated:g} lies inside the null band {images}: chance alone gives up to {most:.3f}."
        )
        raise RequestError(Fault("fair gap", what, fix))


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

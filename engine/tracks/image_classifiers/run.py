"""The whole audit of an image classifier on one page: validate, load, choose filters, cut, retrain,
measure, write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.audit.executors import Executor
from engine.audit.progress import Progress
from engine.audit.session import Session, Tables, run_session, timed
from engine.classifiers.images.context import ImageContext, ImageShard
from engine.classifiers.images.dense import (
    data_meta,
    dense_phases,
    kept_in,
    model_meta,
    starting_model,
)
from engine.core.types import Hooks
from engine.store.runs import Run, Store
from engine.tracks.image_classifiers.arms import Arm, arms_of
from engine.tracks.image_classifiers.measurements import image_measurements
from engine.tracks.image_classifiers.measurements.trial import chosen_shard
from engine.tracks.image_classifiers.request import FilterPlan, ImageRequest, validate_images
from engine.tracks.image_classifiers.tables import image_tables
from engine.tracks.image_classifiers.unit_words import FILTERS, in_units
from engine.tracks.image_classifiers.warnings import image_warnings

ImageAudit = Session[FilterPlan, ImageContext]


def run_image_audit(
    request: ImageRequest,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
) -> Run:
    """The finished run, computed or found. Raises RequestError before anything heavy loads,
    Cancelled when stopped.

    What was finished before an interruption is found in the store and not computed again; a
    training that was interrupted goes on from its last kept epoch.
    """
    plan = validate_images(request)
    return run_session(
        plan, store, hooks, executor, lambda chosen: _audited(plan, store, hooks, chosen)
    )


def _audited(
    plan: FilterPlan, store: Store, hooks: Hooks, executor: Executor
) -> tuple[dict[str, Any], Tables]:
    """Choose filters, cut, retrain, measure, write."""
    audit, arms = open_image_audit(plan, store, hooks, executor), arms_of(plan.request)
    compute(audit, arms)
    with timed(audit.progress, "measure", "groups and intervals"):
        tables, notes = image_tables(audit.context, plan.request, arms, hooks.check)
    return run_meta(audit, tables, notes), tables


def open_image_audit(
    plan: FilterPlan, store: Store, hooks: Hooks, executor: Executor
) -> ImageAudit:
    """Load the model, and prove on this very model that masking filters changes something."""
    progress = Progress(hooks.report)
    with timed(progress, "load", plan.model.name):
        context = context_of(plan, store, hooks)
        context.prove()
    return ImageAudit(plan, context, progress, executor)


def context_of(
    plan: FilterPlan, store: Store | None = None, hooks: Hooks = Hooks()
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


def compute(audit: ImageAudit, arms: Sequence[Arm]) -> None:
    """Every measurement of the run, the long ones first in the order they need each other."""
    request, trials = audit.request, [shard for arm in arms for shard in arm.trials()]
    costs = [arm.cost(speedup) for arm in arms for speedup in arm.speedups]
    audit.finish_all(
        {
            **dense_phases(request),
            "choose filters": list(dict.fromkeys(chosen_shard(shard) for shard in trials)),
            "cut and retrain": trials,
            "measure cost": [ImageShard("cost"), *costs],
            "share of the loss": (
                [shard for arm in arms for shard in arm.loss_shares()] if request.loss_share else []
            ),
        }
    )


def run_meta(
    audit: ImageAudit, tables: dict[str, pd.DataFrame], notes: Sequence[str]
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

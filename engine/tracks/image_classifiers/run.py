"""The whole audit of an image classifier on one page: validate, load, choose filters, cut, retrain,
measure, write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.audit.session import Session, Tables
from engine.classifiers.audit import ClassifierAudit, kept_in
from engine.classifiers.groups import group_warnings
from engine.classifiers.images.context import ImageContext, ImageShard
from engine.classifiers.images.dense import data_meta, dense_phases, model_meta, starting_model
from engine.classifiers.images.request import recipe_of
from engine.classifiers.metrics import OVR
from engine.classifiers.tables import (
    brought_warnings,
    input_notes,
    model_warnings,
    uncut_warnings,
)
from engine.core.types import Hooks
from engine.store.runs import Store
from engine.store.tables import where
from engine.tracks.image_classifiers.measurements import image_measurements
from engine.tracks.image_classifiers.measurements.trial import chosen_shard
from engine.tracks.image_classifiers.request import (
    Arm,
    FilterPlan,
    ImagePlan,
    arms_of,
    loss_shares,
    validate_images,
)
from engine.tracks.image_classifiers.tables import filter_tables
from engine.tracks.image_classifiers.words import FILTERS, in_units

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

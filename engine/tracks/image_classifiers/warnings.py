"""What a reader must know before reading any chart of an image run."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from engine.classifiers.groups import group_warnings
from engine.classifiers.images.context import ImageContext
from engine.classifiers.images.request import recipe_of
from engine.classifiers.images.warnings import brought_warnings, input_notes, model_warnings
from engine.classifiers.metrics import OVR
from engine.tracks.image_classifiers.request import ImagePlan


def image_warnings(
    plan: ImagePlan, context: ImageContext, tables: dict[str, pd.DataFrame], notes: Sequence[str]
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
            f"Only {plan.request.trials} trial(s): intervals say little about the luck of a"
            " training."
        )
    if context.graph.whole:
        found.append(f"{len(context.graph.whole)} convolutions cannot be cut and stay whole.")
    if context.graph.unsafe:
        first, count = ", ".join(context.graph.unsafe[:4]), len(context.graph.unsafe)
        found.append(
            f"Of these, {count} for which a trial cut gave other answers than silencing: {first}."
        )
    return list(dict.fromkeys(found))


def _without(tables: dict[str, pd.DataFrame]) -> list[str]:
    """AUC of every variant with degenerate trials, with them and without."""
    if "without_degenerate" not in tables:
        return []
    both = [
        table[(table["metric"] == "auc") & (table["axis"] == "")].set_index("variant")["value"]
        for table in (tables["results"], tables["without_degenerate"])
    ]
    said = [f"{name} {both[0][name]:.3f} / {value:.3f}" for name, value in both[1].items()]
    return [f"AUC with degenerate trials / without: {'; '.join(said)}."]


def _stopped(plan: ImagePlan, curves: pd.DataFrame) -> list[str]:
    """How often fitting stopped early, where it could."""
    found = []
    for where, recipe in plan.request.recipes.items():
        if recipe.get("patience"):
            mine = curves[curves["phase"] == where].groupby("variant").size()
            n = int((mine < recipe_of(recipe).epochs).sum())
            found.append(
                f"{n} of {len(mine)} fits ({where}) stopped early; each has the weights of its"
                " epoch with the lowest loss on validation images."
            )
    return found


def _trials(variants: pd.DataFrame) -> list[str]:
    """Degenerate trials and missed targets."""
    trials = variants[variants["seed"] >= 0]
    found = []
    if n := int(trials["degenerate"].sum()):
        found.append(
            f"{n} of {len(trials)} trials ended with a model that predicts one class only; they are"
            " marked."
        )
    if n := int((~trials["met"].astype(bool)).sum()):
        found.append(
            f"{n} of {len(trials)} trials miss their target by more than 0.1 %: no exchange of"
            " filters was found."
        )
    return found

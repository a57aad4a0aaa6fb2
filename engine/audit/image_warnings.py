"""What a reader must know before reading any chart of an image run."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from engine.audit.image_request import ImagePlan, recipe_of
from engine.metrics.image_bench import ImageBench


def image_warnings(
    plan: ImagePlan, bench: ImageBench, tables: dict[str, pd.DataFrame], notes: Sequence[str]
) -> list[str]:
    """Sentences, most general first."""
    images = plan.images
    found = [images.stand_in] if images.stand_in else []
    found += [
        *images.notes,
        *model_warnings(plan),
        *brought_warnings(plan, tables["results"]),
        *notes,
        *group_warnings(tables["groups"]),
        *_trials(tables["variants"]),
    ]
    if plan.request.trials < 3:
        found.append(f"Only {plan.request.trials} trial(s): intervals say little about the luck of a training.")
    if bench.graph.whole:
        found.append(f"{len(bench.graph.whole)} convolutions cannot be cut and stay whole.")
    return list(dict.fromkeys(found))


def model_warnings(plan: ImagePlan) -> list[str]:
    """Notes of a model that came trained; for one that was fitted here, that it was."""
    request = plan.request
    if request.train is None:
        return list(plan.model.notes)
    epochs = recipe_of(request.train).epochs
    start = "from random weights" if request.weights is None and plan.is_fresh else "from the weights given"
    return [f"The dense model was fitted by this audit {start}, for {epochs} epochs on the training images."]


def brought_warnings(plan: ImagePlan, results: pd.DataFrame) -> list[str]:
    """What nobody can know of weights that were brought: the order of outputs, normalisation, images they have seen."""
    request, found = plan.request, []
    if request.weights not in (None, "imagenet"):
        order = ", ".join(f"{place} = {name}" for place, name in enumerate(plan.images.classes))
        mean = ", ".join(f"{value:g}" for value in plan.model.mean)
        found.append(f"The weights do not name their outputs; they are taken as {order}.")
        found.append(
            f"The weights do not say how images are normalised; the architecture's usual mean ({mean}) is used."
        )
    dealt = any(note.startswith("No split is given") for note in plan.images.notes)
    if dealt and not plan.is_fresh:
        found.append(
            "The split was dealt here: if the model has seen these test images in training, every change looks worse."
        )
    auc = results[(results["variant"] == "dense") & (results["metric"] == "auc") & (results["axis"] == "")]["value"]
    if len(auc) and float(auc.iloc[0]) < 0.5:
        found.append(
            f"The dense model's AUC of {float(auc.iloc[0]):.3f} is below one half: are its outputs in another order?"
        )
    return found


def group_warnings(groups: pd.DataFrame) -> list[str]:
    """Groups that get no verdict, by axis."""
    dense = groups[(groups["variant"] == "dense") & (groups["metric"] == "auc") & (groups["verdict"] != "")]
    named = dense.assign(said=[f"{row.group} ({row.verdict}, n = {row.n:.0f})" for row in dense.itertuples()])
    return [f"{axis}: no verdict on {', '.join(rows['said'])}." for axis, rows in named.groupby("axis")]


def _trials(variants: pd.DataFrame) -> list[str]:
    """Degenerate trials and missed targets."""
    trials = variants[variants["seed"] >= 0]
    found = []
    if n := int(trials["degenerate"].sum()):
        found.append(f"{n} of {len(trials)} trials ended with a model that predicts one class only; they are marked.")
    if n := int((~trials["met"].astype(bool)).sum()):
        found.append(
            f"{n} of {len(trials)} trials miss their target by more than 0.1 %: no exchange of filters was found."
        )
    return found

"""What a reader must know of the model and the images of an audit before reading any chart of it."""

from __future__ import annotations

import pandas as pd

from engine.classifiers.images.request import ImagePlan, recipe_of


def model_warnings(plan: ImagePlan) -> list[str]:
    """Notes of a model that came trained; for one that was fitted here, that it was."""
    request = plan.request
    if request.train is None:
        return list(plan.model.notes)
    epochs = recipe_of(request.train).epochs
    start = "from random weights" if request.weights is None and plan.is_fresh else "from the weights given"
    return [f"The dense model was fitted by this audit {start}, for {epochs} epochs on the training images."]


def brought_warnings(plan: ImagePlan, results: pd.DataFrame) -> list[str]:
    """What cannot be known of weights from elsewhere: order of outputs, normalisation, images they have seen.

    results: the table `results`, whose AUC of the dense model betrays outputs in another order.
    """
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
    """Groups that get no verdict, by axis; groups: the table `groups`."""
    dense = groups[(groups["variant"] == "dense") & (groups["metric"] == "auc") & (groups["verdict"] != "")]
    named = dense.assign(said=[f"{row.group} ({row.verdict}, n = {row.n:.0f})" for row in dense.itertuples()])
    return [f"{axis}: no verdict on {', '.join(rows['said'])}." for axis, rows in named.groupby("axis")]

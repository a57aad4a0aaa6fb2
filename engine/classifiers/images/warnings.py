"""What a reader must know of the model and the images of an audit before reading any chart of it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from engine.classifiers.images.request import ImagePlan, recipe_of
from engine.data.images.load import ImageSet


def input_notes(images: ImageSet, of_model: Sequence[str], is_fresh: bool = False) -> list[str]:
    """What audits and evaluate say of their input before they measure.

    of_model: notes of the classifier; is_fresh: it was fitted on these images.
    """
    found = [*([images.stand_in] if images.stand_in else []), *images.notes, *of_model]
    if not is_fresh and any(note.startswith("No split is given") for note in images.notes):
        found.append(
            "The split was dealt here: if the model has seen these test images in training, every change looks worse."
        )
    return found


def model_warnings(plan: ImagePlan) -> list[str]:
    """Notes of a model that came trained; for one that was fitted here, that it was."""
    request = plan.request
    if request.train is None:
        return list(plan.model.notes)
    epochs = recipe_of(request.train).epochs
    start = "from random weights" if request.weights is None and plan.is_fresh else "from the weights given"
    return [f"The dense model was fitted by this audit {start}, for {epochs} epochs on the training images."]


def brought_warnings(plan: ImagePlan, results: pd.DataFrame) -> list[str]:
    """What cannot be known of weights from elsewhere: the order of their outputs.

    results: the table `results`, whose AUC of the dense model betrays outputs in another order.
    """
    request, found = plan.request, []
    if request.weights not in (None, "imagenet"):
        order = ", ".join(f"{place} = {name}" for place, name in enumerate(plan.images.classes))
        found.append(f"The weights do not name their outputs; they are taken as {order}.")
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

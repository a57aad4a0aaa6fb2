"""What a reader must know of the model and the images of an audit before reading any chart of
it."""

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
            "The split was dealt here: if the model has seen these test images in training, every"
            " change looks worse."
        )
    return found


def model_warnings(plan: ImagePlan) -> list[str]:
    """Notes of a model that came trained; for one that was fitted here, that it was."""
    request = plan.request
    if request.train is None:
        return list(plan.model.notes)
    epochs = recipe_of(request.train).epochs
    start = (
        "from random weights"
        if request.weights is None and plan.is_fresh
        else "from the weights given"
    )
    return [
        f"The dense model was fitted by this audit {start}, for {epochs} epochs on the training"
        " images."
    ]


def brought_warnings(results: pd.DataFrame) -> list[str]:
    """That outputs may stand in another order than was said: the AUC of the dense model betrays it.

    results: the table `results`.
    """
    auc = results[
        (results["variant"] == "dense") & (results["metric"] == "auc") & (results["axis"] == "")
    ]["value"]
    low = [value for value in auc.head(1) if value < 0.5]
    return [
        f"The dense model's AUC of {one:.3f} is below one half: are its outputs in another order?"
        for one in low
    ]

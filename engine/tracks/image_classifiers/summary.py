"""What the JSON form of an audit of filters holds, what an image classifier is worth, and whether a
run's numbers follow from what it stored."""

from __future__ import annotations

from functools import partial

import numpy as np

from engine.classifiers.audit import Evaluation, evaluation
from engine.classifiers.groups import OVO, GroupMeasure
from engine.classifiers.images.request import (
    inspected,
    outputs_of,
    own_axes,
    usual_axes,
)
from engine.classifiers.layout import columns_of, in_order_of
from engine.classifiers.tables import (
    again_from_answers,
    again_from_tried,
    input_notes,
    pooled_are_means,
)
from engine.core.errors import RequestError, refusal, unknown
from engine.core.types import Values
from engine.data.images.load import SPLITS, ImageAsk, load_images
from engine.report.summary import Summary
from engine.store.runs import Run

SUMMARY = Summary(
    "track experiment request model data warnings spent",
    "method base loss speedup achieved realised degenerate",
)


# What can be asked of an image classifier or a run of one.
#
# What a model is; what it is worth on images, without pruning anything; whether a run's numbers
# follow from its stored answers, computed again, plainly.


__all__ = ["evaluate", "inspected", "recomputed"]


def evaluate(
    model: str,
    weights: str | None,
    data: str,
    target: str | None,
    axes: tuple[str, ...],
    split: str,
    max_images: int | None,
    device: str,
    classes: tuple[str, ...] = (),
    size: int | None = None,
) -> Evaluation:
    """The measures of a classifier on one split. RequestError where the model, the images or the
    split are wrong.

    classes: of the images, in the order of the model's outputs; () as its files name them. size:
    side of the images in pixels; None: the model's.
    """
    from engine.models.load_image_classifier import load_classifier
    from engine.models.runtime import with_backoff
    from engine.surgery.filters.replay import is_cut_folder, load_cut_classifier
    from engine.training.fit import probabilities

    if split not in SPLITS:
        raise RequestError(unknown("split", split, SPLITS))
    axes = own_axes(data, axes) or usual_axes({"data": data, "target": target})
    if is_cut_folder(model):
        if size is not None:
            raise refusal("size", "a cut model keeps the size that it was cut at.", "Leave it out.")
        classifier = load_cut_classifier(model, device)
    else:
        classifier = load_classifier(model, weights, device=device, size=size)
    ask = ImageAsk(
        target, columns_of(axes), classifier.size, max_images, prepare=classifier.processor
    )
    images = load_images(data, ask)

    def answered(rows: np.ndarray, batch: int = 256) -> np.ndarray:
        return probabilities(
            classifier.model, rows, images.read, classifier.prepared, batch
        ).numpy()

    images = in_order_of(images, outputs_of(model, classifier.classes), classes, answered)
    rows = images.rows(split)
    if not len(rows):
        raise refusal("split", f"{images.name} has no {split} images.", "Choose another split.")
    answers = with_backoff(partial(answered, rows), 256)
    table = images.table.iloc[rows].reset_index(drop=True)
    measure = GroupMeasure(table, images.classes, axes, answers.astype(np.float64), split=split)
    notes = [*input_notes(images, classifier.notes), *measure.notes]
    return evaluation(model, images.name, measure, notes)


def recomputed(run: Run) -> list[Values]:
    """One check per metric: the largest difference between what is stored and what scikit-learn
    finds."""
    images = run.table("images").set_index("image_id")
    multi_class = run.request.get(
        "multi_class", OVO
    )  # runs from before there was a choice do not say
    checks = again_from_answers(
        run.table("results"), run.table("predictions"), images, "image_id", multi_class
    )
    return [*checks, *again_from_tried(run, "image_id", multi_class), pooled_are_means(run)]

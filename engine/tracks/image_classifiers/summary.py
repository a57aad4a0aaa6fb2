"""Cut filters in lines: AUC, its gap between subgroups, and which subgroup paid most, of every arm
at every speedup."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.audit import Evaluation, evaluation
from engine.classifiers.groups import OVO, GroupMeasure
from engine.classifiers.images.request import (
    CLASS_AXIS,
    inspected,
    outputs_of,
    own_axes,
    usual_axes,
)
from engine.classifiers.layout import in_order_of
from engine.classifiers.tables import input_notes
from engine.classifiers.verification import again_from_answers, again_from_tried, pooled_are_means
from engine.core.errors import RequestError, refusal, unknown
from engine.core.words import AXES
from engine.data.images.load import SPLITS, ImageAsk, load_images
from engine.report.summary import Summary, changed, ends, number, paid_most
from engine.store.runs import Run, where
from engine.tracks.image_classifiers.panels.speedup import missed


class Filters(Summary):
    """Gap with interval, change and null band; AUC; the subgroup with the lowest change; degenerate
    trials."""

    parts = ("track", "experiment", "request", "model", "data", "warnings", "spent")
    columns = ("method", "base", "loss", "speedup", "achieved", "realised", "degenerate")
    more = ("group", "verdict")

    def lines(self, run: Run) -> list[str]:
        results, groups, variants = run.table("results"), run.table("groups"), run.table("variants")
        test = results[results["split"] == "test"]
        auc = where(test, metric="auc", axis="").set_index("variant")["value"]
        found = []
        for axis in run.request["axes"]:
            gaps = where(test, metric="auc_gap", axis=axis).set_index("variant")
            mine = where(groups, metric="auc", axis=axis, verdict="")
            found.append(
                f"\n{AXES.get(axis, axis)}  (gap of AUC with 95 % interval; null band up to; AUC;"
                " lowest change)"
            )
            for item in variants[variants["chosen"]].itertuples():
                paid = paid_most(mine[mine["variant"] == item.variant])
                wrong = f"  ! {item.degenerate} degenerate" if item.degenerate else ""
                level = number(float(auc.get(item.variant, math.nan)), ".3f")
                gap = gaps.loc[item.variant] if item.variant in gaps.index else None
                found.append(f"  {item.variant:<32} {_gap(gap)}  AUC {level}{paid}{wrong}")
        missing = {name: missed(run, name) for name in variants.loc[variants["chosen"], "variant"]}
        shown = [f"  {name:<32} {text}" for name, text in missing.items() if text]
        return [*found, "\ntargets", *shown] if shown else found


def _gap(row: pd.Series | None) -> str:
    if row is None or math.isnan(row.value):
        return "gap none".ljust(72)
    return (
        f"gap {row.value:.3f} {ends(row.low, row.high, '.3f')}  {changed(row):<24}  null"
        f" {number(row.null_high, '.3f')}"
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
    groups = tuple(
        dict.fromkeys(part for axis in axes for part in axis.split("+") if part != CLASS_AXIS)
    )
    ask = ImageAsk(target, groups, classifier.size, max_images, prepare=classifier.processor)
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


def recomputed(run: Run) -> list[dict[str, Any]]:
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

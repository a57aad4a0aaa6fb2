"""A cut classifier with its retrained weights, saved to be loaded, and checked against the answers
the audit stored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.classifiers.tables import hold_or_refuse, kept_weights
from engine.core.errors import RequestError, refusal
from engine.core.types import FilterMask, Values
from engine.store.runs import Run
from engine.surgery.record import FilterRecord, groups_of

PROBES = 256
"""Test images on which the reloaded model answers again."""
TOLERANCE = 1e-3
"""Largest difference of a probability that other hardware may make."""


def write_cut(
    run: Run,
    variant: str,
    record: FilterRecord,
    dense: Any,
    arrays: dict[str, np.ndarray],
    folder: Path,
) -> list[Path]:
    """Save a cut classifier into `folder`, load it again and prove that it is the same; returns the
    files written.

    dense: the classifier that was cut. arrays: its weights by name, in the shapes of the cut model
    or of the dense one. MaskError where the loaded model differs, or answers otherwise than the
    run's table `predictions` says.
    """
    from engine.surgery.filters.replay import load_cut_classifier, same_weights, save_cut_classifier

    small = cut_with(dense, record, arrays)
    folder = save_cut_classifier(replace(small, target=run.data.get("target", "")), record, folder)
    again = load_cut_classifier(folder, device="cpu")
    found = {"same_weights": same_weights(small, again), **answers_agree(run, variant, again)}
    hold_or_refuse(folder, found)
    return sorted(folder.iterdir())


def cut_with(dense: Any, record: FilterRecord, arrays: dict[str, np.ndarray]) -> Any:
    """The dense classifier cut as the record says, with other weights.

    arrays: weights by name, in the shapes of the dense model (kept before the cut) or of the cut
    one (kept after it).
    """
    from engine.surgery.filters.graph import arrays_of, replayed, with_weights

    shapes = {name: value.shape for name, value in arrays_of(dense.model).items()}
    if {name: value.shape for name, value in arrays.items()} == shapes:
        return replayed(with_weights(dense, arrays), record.history, record.mask)
    return with_weights(replayed(dense, record.history, record.mask), arrays)


def dense_classifier(run: Run, base: str | None = None) -> Any:
    """The model that was pruned. RequestError unless its weights are those of the run."""
    from engine.models.load_image_classifier import (
        fresh_classifier,
        is_architecture,
        load_classifier,
    )
    from engine.surgery.filters.graph import with_weights

    request, model = run.request, run.model
    name, weights = base or request["model"], None if base else request.get("weights")
    classes, size = tuple(model["classes"]), model["size"]
    if is_architecture(name) and weights in (None, "imagenet"):
        start = fresh_classifier(name, classes, size, request["first_seed"], weights, "cpu")
    else:
        start = load_classifier(name, weights, classes=classes, size=size, device="cpu")
    if request.get("train") is not None:
        start = with_weights(start, kept_weights(run, "dense"))
    if start.weight_hash != model["weight_hash"]:
        what = (
            f"has weights {start.weight_hash[:16]}…, the audit was of {model['weight_hash'][:16]}…."
        )
        raise refusal(str(name), what, "Give the model that was audited (--base).")
    return start


def answers_agree(run: Run, variant: str, classifier: Any) -> Values:
    """Answers of the reloaded model against the stored ones, where the images are still there."""
    from engine.audit.tracks import request_from
    from engine.classifiers.images.request import images_of

    try:
        images = images_of(request_from(run.request))
    except RequestError as error:
        return {"images": 0, "why": f"The images are not here any more: {error.faults[0]}"}
    stored = run.table("predictions")
    stored = stored[stored["variant"] == variant].set_index("image_id")
    rows = images.rows("test")[:PROBES]
    ids = images.table["image_id"].to_numpy()[rows]
    if images.digest != run.data["digest"] or not set(ids) <= set(stored.index):
        return {"images": 0, "why": "The images are not those of the audit any more."}
    from engine.training.fit import probabilities

    again = probabilities(classifier.model, rows, images.read, classifier.prepared).numpy()
    difference = float(np.abs(again - stored.loc[ids].filter(regex="^p_").to_numpy()).max())
    return {"images": len(rows), "largest_difference": difference, "holds": difference <= TOLERANCE}


# mask.json of one trial that cuts filters: which, of which model, chosen how, and the history
# that replays the cut.


def record_of(run: Run, variant: Values, **more: Any) -> FilterRecord:
    """What a row of the variants table says of its filters and of their model, with `more` fields
    of the record."""
    model = run.model
    cut = {group: tuple(indices) for group, indices in json.loads(variant["cut"]).items()}
    mask = FilterMask(
        tuple((name, int(width)) for name, width in model["layers"]), tuple(cut.items())
    )
    return FilterRecord(
        model=model["name"],
        architecture=model["architecture"],
        weight_hash=model["weight_hash"],
        classes=tuple(model["classes"]),
        size=int(model["size"]),
        groups=groups_of(mask),
        history=json.loads(variant["history"]),
        run=run.id,
        created=run.meta["created"],
        **more,
    )

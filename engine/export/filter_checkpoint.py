"""A cut classifier as it was retrained, ready to load: checked against the answers that the audit stored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import Fault, MaskError, RequestError
from engine.export.filter_masks import filter_record
from engine.export.kept import first_repeat, kept_weights
from engine.files import write_json
from engine.store.runs import Run

PROBES = 256
"""Test images on which the reloaded model answers again."""
TOLERANCE = 1e-3
"""Largest difference of a probability that other hardware may make."""


def write_filter_checkpoint(run: Run, variant: dict[str, Any], folder: Path, base: str | None = None) -> list[Path]:
    """Below `folder`: cut.safetensors, mask.json, model.json (loads with `load_cut_classifier`), agreement.json.

    A pooled variant stands for its first trial. Loads the run's model again (`base` names it where it moved).
    RequestError where the weights of this trial were not kept or the model is not the run's; MaskError where the
    reloaded model does not answer as the audit says.
    """
    trial = first_repeat(run, variant)
    arrays = kept_weights(run, trial["variant"])
    from engine.surgery.filter_cut import replayed
    from engine.surgery.filter_replay import load_cut_classifier, same_weights, save_cut_classifier
    from engine.surgery.filter_weights import with_weights

    record = filter_record(run, trial)
    dense = dense_classifier(run, base)
    small = with_weights(replayed(dense, record.history, record.mask), arrays)
    folder = save_cut_classifier(replace(small, target=run.meta["data"].get("target", "")), record, folder)
    again = load_cut_classifier(folder, device="cpu")
    found = {"same_weights": same_weights(small, again), **answers_agree(run, trial["variant"], again)}
    write_json(folder / "agreement.json", found)
    if not found["same_weights"] or found.get("holds") is False:
        raise MaskError(f"The saved model does not answer as the audit says ({json.dumps(found)}); nothing was kept.")
    return sorted(folder.iterdir())


def dense_classifier(run: Run, base: str | None = None) -> Any:
    """The model that was pruned. RequestError unless its weights are those of the run."""
    from engine.models.load_classifier import fresh_classifier, is_architecture, load_classifier
    from engine.surgery.filter_weights import with_weights

    request, model = run.meta["request"], run.meta["model"]
    name, weights = base or request["model"], None if base else request.get("weights")
    classes, size = tuple(model["classes"]), model["size"]
    if is_architecture(name) and weights in (None, "imagenet"):
        start = fresh_classifier(name, classes, size, request["first_seed"], weights, "cpu")
    else:
        start = load_classifier(name, weights, classes=classes, size=size, device="cpu")
    if request.get("train") is not None:
        start = with_weights(start, kept_weights(run, "dense"))
    if start.weight_hash != model["weight_hash"]:
        what = f"has weights {start.weight_hash[:16]}…, the audit was of {model['weight_hash'][:16]}…."
        raise RequestError(Fault(str(name), what, "Give the model that was audited (--base)."))
    return start


def answers_agree(run: Run, variant: str, classifier: Any) -> dict[str, Any]:
    """Answers of the reloaded model against the stored ones, where the images are still there."""
    from engine.audit.image_request import images_of, request_of_run

    try:
        images = images_of(request_of_run(run))
    except RequestError as error:
        return {"images": 0, "why": f"The images are not here any more: {error.faults[0]}"}
    stored = run.table("predictions")
    stored = stored[stored["variant"] == variant].set_index("image_id")
    rows = images.rows("test")[:PROBES]
    ids = images.table["image_id"].to_numpy()[rows]
    if images.digest != run.meta["data"]["digest"] or not set(ids) <= set(stored.index):
        return {"images": 0, "why": "The images are not those of the audit any more."}
    from engine.training.fit import probabilities

    again = probabilities(classifier.model, rows, images.read, classifier.prepared).numpy()
    difference = float(np.abs(again - stored.loc[ids].filter(regex="^p_").to_numpy()).max())
    return {"images": len(rows), "largest_difference": difference, "holds": difference <= TOLERANCE}

"""One picture before a dense and a cut image classifier: both loaded, both asked, and where each of
them looks."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image

from engine.classifiers.images.checkpoint import dense_classifier
from engine.classifiers.images.looks import grad_cam, occlusion, window_of
from engine.classifiers.images.picture import GRAD_CAM
from engine.classifiers.stored_weights import kept_weights
from engine.core.types import Hooks, digest_of
from engine.core.words import is_by_hand
from engine.models.load_image_classifier import Classifier
from engine.models.load_language_model import files_beside
from engine.resident.warm import Warm
from engine.store.runs import Run
from engine.surgery.filters.weights import arrays_of

MOST_CELLS = 56
"""Rows and columns of a map that is told."""
Cut = Callable[[Run, dict[str, Any], Classifier, dict[str, np.ndarray]], Classifier]
"""How a track makes the model of a variant's row: of the run, the row, the dense model and the kept
weights."""


def pair_of(
    run: Run, variant: dict[str, Any], cut: Cut, warm: Warm
) -> tuple[Classifier, Classifier, list[str]]:
    """The dense classifier and the one of a variant's row, as it was trained, and what must be said
    of them.

    RequestError where its weights are not here: what a method cuts is trained too, so a mask on the
    dense weights would be no model of the audit. Of a set chosen by hand it is the model.
    """
    model = run.meta["request"]["model"]
    about = [run.id, run.meta["model"]["weight_hash"], files_beside(model), model]
    name = f"image classifier {run.meta['model']['name']} {digest_of(about)[:16]}"
    if variant["variant"] == "dense":
        dense = warm.get(name, lambda: dense_classifier(run), _bytes_of)
        return dense, dense, ["Nothing is cut: both models are the same."]
    key = f"cut {name} {variant['variant']}"
    by_hand = is_by_hand(str(variant["method"]))
    arrays = None if by_hand else kept_weights(run, variant["variant"])  # before anything is loaded
    dense = warm.get(name, lambda: dense_classifier(run), _bytes_of)
    if arrays is None:
        arrays = arrays_of(dense.model)
    notes = ["Chosen by hand: nothing was trained again after the cut."] if by_hand else []
    return dense, warm.get(key, lambda: cut(run, variant, dense, arrays), _bytes_of), notes


def _bytes_of(classifier: Classifier) -> int:
    return 4 * classifier.n_parameters


def answered(
    dense: Classifier, pruned: Classifier, pixels: np.ndarray, way: str, hooks: Hooks
) -> dict[str, Any]:
    """What both answer and where they look, JSON-able: see `engine/report/picture_ask.py`."""
    sides, target = {}, -1
    for name, classifier in (("dense", dense), ("pruned", pruned)):
        hooks.check()
        with torch.no_grad():
            logits = classifier.model(classifier.prepared(pixels[None]))[0].double()
        target = int(logits.argmax()) if target < 0 else target
        found, layer = (
            grad_cam(classifier, pixels, target)
            if way == GRAD_CAM
            else (occlusion(classifier, pixels, target), "")
        )
        sides[name] = {
            "probabilities": logits.softmax(-1).tolist(),
            "answer": dense.classes[int(logits.argmax())],
            "map": _coarse(found).tolist(),
            "layer": layer,
        }
    return {
        "classes": list(dense.classes),
        "target": dense.classes[target],
        "way": way,
        "window": window_of(pixels),
        "size": len(pixels),
        "picture": _png(pixels),
        **sides,
    }


def _coarse(values: np.ndarray) -> np.ndarray:
    """A map of at most MOST_CELLS rows and columns: means of squares."""
    step = -(-len(values) // MOST_CELLS)
    edges = range(0, len(values), step)
    return np.array(
        [
            [values[row : row + step, column : column + step].mean() for column in edges]
            for row in edges
        ]
    )


def _png(pixels: np.ndarray) -> str:
    memory = io.BytesIO()
    Image.fromarray(pixels).save(memory, "PNG")
    return base64.b64encode(memory.getvalue()).decode()

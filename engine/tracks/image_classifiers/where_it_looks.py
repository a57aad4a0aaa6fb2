"""What two classifiers answer to a picture, and where each looks: Captum's occlusion."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import torch
from captum.attr import Occlusion
from PIL import Image

from engine.classifiers.images.checkpoint import cut_with, dense_classifier
from engine.classifiers.stored_weights import kept_weights
from engine.core.types import Hooks, digest_of
from engine.models.load_image_classifier import Classifier
from engine.models.log_odds import log_odds
from engine.resident.warm import Warm
from engine.tracks.image_classifiers.masks import filter_record
from engine.tracks.image_classifiers.picture import Question

WINDOWS = 8
"""Hidden squares beside each other; they overlap by half."""
AT_ONCE = 32
MOST_CELLS = 56
"""Rows and columns of a map that is told."""


def pair_of(question: Question, warm: Warm) -> tuple[Classifier, Classifier, list[str]]:
    """The dense classifier and the retrained cut one, and what must be said of them. RequestError where weights are not
    here: filters are cut and retrained together, so a mask on the dense weights would be no model of the audit."""
    run, variant = question.run, question.variant
    about = [run.id, run.meta["model"]["weight_hash"], run.meta["request"]["model"]]
    name = f"image classifier {run.meta['model']['name']} {digest_of(about)[:16]}"
    if not variant["n_cut"]:
        dense = warm.get(name, lambda: dense_classifier(run), _bytes_of)
        return dense, dense, ["Nothing is cut: both models are the same."]
    arrays = kept_weights(run, variant["variant"])
    dense = warm.get(name, lambda: dense_classifier(run), _bytes_of)
    key = f"cut {name} {variant['variant']}"
    return dense, warm.get(key, lambda: cut_with(dense, filter_record(run, variant), arrays), _bytes_of), []


def _bytes_of(classifier: Classifier) -> int:
    return 4 * classifier.n_parameters


def answered(question: Question, models: tuple[Classifier, Classifier, list[str]], hooks: Hooks) -> dict[str, Any]:
    """The answer, JSON-able: see `asks/picture.py`."""
    dense, pruned, notes = models
    run, sides, target = question.run, {}, -1
    for name, classifier in (("dense", dense), ("pruned", pruned)):
        hooks.check()
        with torch.no_grad():
            logits = classifier.model(classifier.prepared(question.pixels[None]))[0].double()
        target = int(logits.argmax()) if target < 0 else target
        sides[name] = {
            "probabilities": logits.softmax(-1).tolist(), "answer": dense.classes[int(logits.argmax())],
            "map": _coarse(occlusion(classifier, question.pixels, target)).tolist(),
        }  # fmt: skip
    return {
        "run": run.id, "cut": question.label, "filters": int(question.variant["n_cut"]),
        "classes": list(dense.classes), "target": dense.classes[target], "window": window_of(question.pixels),
        "size": len(question.pixels), "picture": _png(question.pixels), **sides, "notes": [*question.notes, *notes],
    }  # fmt: skip


def window_of(pixels: np.ndarray) -> int:
    """Side of the square that hides, in pixels."""
    return max(2, len(pixels) // WINDOWS)


def occlusion(classifier: Classifier, pixels: np.ndarray, target: int) -> np.ndarray:
    """By how much hiding a place lowers the log-odds of a class, [size, size] float64: a square of the training images'
    mean colour moves over the picture (Zeiler and Fergus 2014); where squares overlap, their mean."""
    side = window_of(pixels)
    step = max(1, side // 2)
    image = classifier.prepared(pixels[None]).contiguous()
    with torch.no_grad():
        found = Occlusion(lambda given: log_odds(classifier.model(given))).attribute(
            image, (3, side, side), strides=(3, step, step), baselines=0, target=target,
            perturbations_per_eval=AT_ONCE,
        )  # fmt: skip
    return found[0, 0].double().cpu().numpy()


def _coarse(values: np.ndarray) -> np.ndarray:
    """A map of at most MOST_CELLS rows and columns: means of squares."""
    step = -(-len(values) // MOST_CELLS)
    edges = range(0, len(values), step)
    return np.array([[values[row : row + step, column : column + step].mean() for column in edges] for row in edges])


def _png(pixels: np.ndarray) -> str:
    memory = io.BytesIO()
    Image.fromarray(pixels).save(memory, "PNG")
    return base64.b64encode(memory.getvalue()).decode()

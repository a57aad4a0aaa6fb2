"""One picture before a dense and a cut image classifier: both loaded, both asked, and where each of
them looks."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from captum.attr import LayerGradCam, Occlusion
from PIL import Image
from torch import Tensor, nn

from engine.classifiers.images.checkpoint import dense_classifier
from engine.classifiers.images.picture import GRAD_CAM
from engine.classifiers.tables import kept_weights
from engine.core.errors import refusal
from engine.core.types import Hooks, Values, digest_of
from engine.core.words import is_by_hand
from engine.models.load_image_classifier import Classifier
from engine.models.load_language_model import files_beside
from engine.resident.warm import Warm
from engine.store.runs import Run
from engine.surgery.filters.graph import arrays_of
from engine.training.losses import log_odds

MOST_CELLS = 56
"""Rows and columns of a map that is told."""
Cut = Callable[[Run, Values, Classifier, dict[str, np.ndarray]], Classifier]
"""How a track makes the model of a variant's row: of the run, the row, the dense model and the kept
weights."""


def pair_of(
    run: Run, variant: Values, cut: Cut, warm: Warm
) -> tuple[Classifier, Classifier, list[str]]:
    """The dense classifier and the one of a variant's row, as it was trained, and what must be said
    of them.

    RequestError where its weights are not here: what a method cuts is trained too, so a mask on the
    dense weights would be no model of the audit. Of a set chosen by hand it is the model.
    """
    model = run.request["model"]
    about = [run.id, run.model["weight_hash"], files_beside(model), model]
    name = f"image classifier {run.model['name']} {digest_of(about)[:16]}"
    if variant["variant"] == "dense":
        dense = warm.get(name, lambda: dense_classifier(run), _bytes_of)
        return dense, dense, ["Nothing is cut: both models are the same."]
    key = f"cut {name} {variant['variant']}"
    by_hand = is_by_hand(str(variant["method"]))
    arrays = None if by_hand else kept_weights(run, variant["variant"])  # before anything is loaded
    dense = warm.get(name, lambda: dense_classifier(run), _bytes_of)
    if arrays is None:
        arrays = arrays_of(dense.model)
    notes = ["Chosen by hand: the model was not trained again after the cut."] if by_hand else []
    return dense, warm.get(key, lambda: cut(run, variant, dense, arrays), _bytes_of), notes


def _bytes_of(classifier: Classifier) -> int:
    return 4 * classifier.n_parameters


def answered(
    dense: Classifier, pruned: Classifier, pixels: np.ndarray, way: str, hooks: Hooks
) -> dict[str, Any]:
    """What both answer and where they look, JSON-able: see `engine/report/one_input.py`."""
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


# Where an image classifier looks on one picture, by Captum: occlusion, and Grad-CAM at its last
# fine layer.


WINDOWS = 8
"""Hidden squares beside each other; they overlap by half."""
AT_ONCE = 32
FINE = 4
"""Places a side that a layer must tell apart for Grad-CAM: coarser ones point at a quarter of the
picture or more."""


def window_of(pixels: np.ndarray) -> int:
    """Side of the square that hides, in pixels."""
    return max(2, len(pixels) // WINDOWS)


def occlusion(classifier: Classifier, pixels: np.ndarray, target: int) -> np.ndarray:
    """By how much hiding a place lowers the log-odds of a class, [size, size] float64.

    A square of the training images' mean colour moves over the picture (Zeiler and Fergus 2014);
    where squares overlap, their mean.
    """
    side = window_of(pixels)
    step = max(1, side // 2)
    image = classifier.prepared(pixels[None]).contiguous()
    with torch.no_grad():
        found = Occlusion(lambda given: log_odds(classifier.model(given))).attribute(
            image,
            (3, side, side),
            strides=(3, step, step),
            baselines=0,
            target=target,
            perturbations_per_eval=AT_ONCE,
        )
    return found[0, 0].double().cpu().numpy()


def grad_cam(classifier: Classifier, pixels: np.ndarray, target: int) -> tuple[np.ndarray, str]:
    """Grad-CAM (Selvaraju et al. 2017) of the log-odds of a class, [rows, columns] float64 of the
    layer's own places, and the layer's name: its feature maps, each times its mean gradient, added
    up. Without the paper's last step, which sets to zero what speaks against the class."""
    image = classifier.prepared(pixels[None]).contiguous().requires_grad_()
    name = last_fine_layer(classifier.model, image)
    layer = classifier.model.get_submodule(name)
    asked = LayerGradCam(lambda given: log_odds(classifier.model(given)), layer)
    return asked.attribute(image, target=target)[0, 0].detach().double().cpu().numpy(), name


def last_fine_layer(model: nn.Module, image: Tensor) -> str:
    """The last module on the trunk, where all paths have met, before one tells fewer than FINE
    places a side apart."""
    sides = []

    def seen(name: str) -> None:
        def note(_: nn.Module, __: object, out: object) -> None:
            sides.append(
                (name, min(out.shape[2:]) if isinstance(out, Tensor) and out.dim() == 4 else 0)
            )

        hooks.append(model.get_submodule(name).register_forward_hook(note))

    hooks: list[torch.utils.hooks.RemovableHandle] = []
    try:
        for name in trunk(model):
            seen(name)
        with torch.no_grad():
            model(image)
    finally:
        for hook in hooks:
            hook.remove()
    coarse = next((place for place, (_, side) in enumerate(sides) if side < FINE), len(sides))
    if not coarse:
        what = f"has no layer that tells {FINE} × {FINE} places apart at this size."
        raise refusal("way", f"the model {what}", "Ask for occlusion.")
    return sides[coarse - 1][0]


def trunk(model: nn.Module, before: str = "") -> Iterator[str]:
    """Names of the modules that everything runs through one after the other, in order: chains are
    taken apart, blocks with paths beside each other are not."""
    for name, child in model.named_children():
        if type(child) is nn.Sequential:
            yield from trunk(child, f"{before}{name}.")
        else:
            yield f"{before}{name}"

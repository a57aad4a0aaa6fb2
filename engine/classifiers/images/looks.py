"""Where an image classifier looks on one picture, by Captum: occlusion, and Grad-CAM at its last
fine layer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from captum.attr import LayerGradCam, Occlusion
from torch import Tensor, nn

from engine.core.errors import Fault, RequestError
from engine.models.load_image_classifier import Classifier
from engine.models.log_odds import log_odds

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
    """By how much hiding a place lowers the log-odds of a class, [size, size] float64: a square of
    the training images' mean colour moves over the picture (Zeiler and Fergus 2014); where squares
    overlap, their mean.
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
    sides: list[tuple[str, int]] = []

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
        raise RequestError(Fault("way", f"the model {what}", "Ask for occlusion."))
    return sides[coarse - 1][0]


def trunk(model: nn.Module, before: str = "") -> Iterator[str]:
    """Names of the modules that everything runs through one after the other, in order: chains are
    taken apart, blocks with paths beside each other are not."""
    for name, child in model.named_children():
        if type(child) is nn.Sequential:
            yield from trunk(child, f"{before}{name}.")
        else:
            yield f"{before}{name}"

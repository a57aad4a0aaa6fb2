"""What measurements of image classifiers share: batches in a trial's order, targets of a loss,
answers, settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from engine.classifiers.images.context import TRAIN, VALIDATION, ImageContext
from engine.classifiers.metrics import cross_entropy
from engine.models.load_image_classifier import Classifier
from engine.training.batches import Batches
from engine.training.fit import probabilities
from engine.training.losses import LossPlan, Targets, targets
from engine.training.recipe import Recipe


def batches_of(
    context: ImageContext,
    classifier: Classifier,
    size: int,
    seed: int,
    mirror: bool = False,
    apart: bool = False,
) -> Batches:
    """The training images in the order of this seed; apart: see `Batches`."""
    read = context.images.read
    return Batches(
        context.rows(TRAIN), read, classifier.prepared, size, seed, mirror and context.mirror, apart
    )


def targets_of(
    context: ImageContext, plan: LossPlan, place: str, plain: str = "truth", apart: bool = False
) -> Targets:
    """What every training image is compared with in one place ("prune" or "retrain"), on the
    model's device.

    apart: all images as they are, then all of them mirrored, each by the original model's answer to
    that view.
    """
    original = torch.as_tensor(context.original())
    truth = torch.as_tensor(context.labels(TRAIN))
    if apart:
        original, truth = torch.cat([original, mirrored_answers(context)]), truth.repeat(2)
    found = targets(plan, original, truth, place, plain)
    return Targets(found.labels.to(context.start.device), found.weights.to(context.start.device))


def mirrored_answers(context: ImageContext) -> torch.Tensor:
    """The dense model's probabilities of the training images left to right, [n, classes] float32 on
    the CPU."""

    def read(rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(context.images.read(rows)[:, :, ::-1])

    rows, dense = context.rows(TRAIN), context.dense
    return probabilities(
        dense.model, rows, read, dense.prepared, context.settings.batch, context.hooks.check
    )


def answers_of(context: ImageContext, classifier: Classifier, split: str) -> np.ndarray:
    """Probabilities of a split's images, [n, classes] float32; batches shrink when memory is
    short."""
    from engine.models.runtime import with_backoff

    def run(batch: int) -> np.ndarray:
        return probabilities(
            classifier.model,
            context.rows(split),
            context.images.read,
            classifier.prepared,
            batch,
            context.hooks.check,
        ).numpy()

    return with_backoff(run, context.settings.batch)


def validator(
    context: ImageContext, classifier: Classifier, recipe: Recipe
) -> Callable[[], float] | None:
    """What a fit stops early by: the mean cross-entropy of the classifier, as it then is, on the
    validation images (nats); None where the recipe does not stop early."""
    if not recipe.patience:
        return None
    labels = context.labels(VALIDATION)
    return lambda: float(cross_entropy(answers_of(context, classifier, VALIDATION), labels).mean())


def stepper(context: ImageContext) -> Callable[[int, int], None]:
    """A function that reports steps (done, total) within one long measurement."""
    return lambda done, total: context.inside(done / max(total, 1))


def settings_of(context: ImageContext, method: Any) -> dict[str, Any]:
    """All settings of a method, declared defaults included."""
    given = context.settings.methods.get(method.name, {})
    return {item.name: given.get(item.name, item.default) for item in method.settings}

"""Audits of images that finish in seconds: digits of 16 pixels and a new small model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.classifiers.images.context import ImageContext, ImageShard
from engine.classifiers.images.dense import starting_model
from engine.tracks.image_classifiers.measurements import image_measurements
from engine.tracks.image_classifiers.request import ImageRequest, validate_images
from tests.classifiers.worlds import SMALL


def image_request(**changes: object) -> ImageRequest:
    """Digits at 16 pixels with a new small model: 2 arms x 2 speedups x 2 trials in seconds."""
    values: dict[str, Any] = {
        "model": SMALL,
        "data": "digits",
        "axes": ("class",),
        "size": 16,
        "methods": ("random", "random+pw"),
        "speedups": (2.0, 4.0),
        "trials": 2,
        "train": {"epochs": 2, "batch": 64, "rate": 3e-3},
        "retrain": {"epochs": 1, "batch": 64, "rate": 2e-3},
        "max_images": 300,
        "device": "cpu",
    }
    return ImageRequest(**{**values, **changes})


def image_context(request: ImageRequest) -> ImageContext:
    """A context that keeps its measurements in memory."""
    plan = validate_images(request)
    return ImageContext(
        starting_model(plan),
        plan.images,
        plan.request.settings(),
        image_measurements(),
        mirror=plan.request.mirrors,
    )


def cluster_world(folder: Path) -> tuple[Any, list[Any]]:
    """A new context that keeps its measurements in memory, and some of its shards."""
    from engine.tracks.image_classifiers.measurements.trial import chosen_shard
    from engine.tracks.image_classifiers.request import arms_of
    from engine.tracks.image_classifiers.run import context_of

    request = image_request(trials=1, speedups=(2.0,))
    trials = [shard for arm in arms_of(request) for shard in arm.shards()]
    context = context_of(validate_images(request))
    return context, [
        ImageShard("dense_weights"),
        ImageShard("original"),
        *map(chosen_shard, trials),
        *trials,
    ]


def small_audit(folder: Path) -> list[str]:
    """Words of a command that audits in seconds and reads nothing of the user's."""
    asked = (
        f"audit --model {SMALL} --data digits --size 16 --axis class --speedup 2 --trials 2"
        " --train epochs=3 --train batch=200 --retrain epochs=1 --max-images 200 --device cpu"
        " --method random --method magnitude+pw"
    )
    return asked.split()

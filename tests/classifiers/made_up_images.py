"""Made-up images with groups that made-up runs of several tracks share: who is on them, how easily
a model tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.groups import Arm, GroupMeasure
from engine.classifiers.images.request import ImagesRequest
from engine.classifiers.tables import (
    RepeatsT,
    answers_table,
    layers_table,
    measured_arms,
    numbers_of,
)
from engine.core.types import rng
from engine.store.runs import where
from tests.builders import hash_of

CLASSES = ("other", "blond")
WIDTHS = (
    ("conv1", 8),
    ("layer1.0.conv1", 8),
    ("layer2.0.conv1", 16),
    ("layer2.0.conv2", 16),
    ("layer3.0.conv1", 32),
    ("layer3.0.conv2", 32),
)
FLOPS = 8.2e7
DRAWS = 30
STAND_IN = "Drawn faces, not photographs: a stand-in for images of people."


@dataclass
class ImageWorld:
    """Everything drawn once: the images of the test split and how easily the dense model tells each
    one's class."""

    options: dict[str, Any]
    images: pd.DataFrame
    ease: np.ndarray
    axes: tuple[str, ...] = ("gender", "skin", "class")


def draw_image_world(options: dict[str, Any]) -> ImageWorld:
    """Blond men are rare, dark skin is never blond (its AUC does not exist), for a handful the skin
    is unrecorded."""
    draw = rng("synthetic images", options["stream"])
    n = options["images"]
    male = draw.random(n) < 0.4
    skin = draw.choice(
        ["light", "medium", "dark", "unrecorded"], size=n, p=[0.50, 0.38, 0.10, 0.02]
    )
    blond = draw.random(n) < np.where(male, 0.22, 0.45)
    blond &= skin != "dark"
    ease = 1.35 + 1.0 * draw.normal(size=n) - 0.2 * male
    images = pd.DataFrame(
        {
            "image_id": [hash_of("image", options["stream"], index)[:16] for index in range(n)],
            "split": "test",
            "label": blond.astype(np.int64),
            "gender": np.where(male, "male", "non-male"),
            "skin": skin,
        }
    )
    return ImageWorld(options, images, ease)


def two_classes(margin: np.ndarray, labels: np.ndarray, is_flat: bool) -> np.ndarray:
    """Probabilities (items, 2) of a model that is right by so much; a flat one names one class
    always."""
    logit = np.where(labels == 1, margin, -margin)
    one = 1 / (1 + np.exp(6.0 - 0.1 * logit if is_flat else -logit))
    return np.stack([1 - one, one], axis=1)


def asked(world: ImageWorld) -> dict[str, Any]:
    """What requests of all tracks say of these images."""
    return {"model": "demo-resnet", "data": "avatars", "axes": world.axes, "target": "blond"} | {
        "mirror": True,
        "device": "cpu",
    }


def measured_tables(
    world: ImageWorld,
    arms: list[RepeatsT],
    dense: np.ndarray,
    answer: Callable[[Any], np.ndarray],
    layers: Mapping[str, Any],
) -> tuple[dict[str, pd.DataFrame], dict[RepeatsT, Arm], tuple[str, ...]]:
    """The tables that follow from answers by the engine's own statistics, what was measured of
    every variant, and notes."""
    measure = GroupMeasure(
        world.images, CLASSES, world.axes, dense, n_boot=DRAWS, n_permutations=DRAWS
    )
    measured = measured_arms(answer, arms, measure, lambda: None)
    results, groups = numbers_of(measure, measured, lambda: None)
    answers = {arm.id_of(one): answer(one) for arm in arms for one in arm.shards()}
    tables = {
        "results": results,
        "groups": groups,
        "images": world.images,
        "predictions": answers_table({"dense": dense, **answers}, world.images, "image_id"),
        "layers": layers_table(layers),
    }
    return tables, measured, measure.notes


def cost_row(
    variant: str, theoretical: float, gain: float, parameters: int, difference: float
) -> dict[str, Any]:
    """A row of the table costs: so much fewer FLOPs, so much faster."""
    return {
        "variant": variant,
        "flops": FLOPS / theoretical,
        "parameters": parameters,
        "bytes": 4 * parameters,
        "latency_ms": 9.4 / gain,
        "latency_low": 9.1 / gain,
        "latency_high": 9.9 / gain,
        "dense_latency_ms": 9.4,
        "speedup": gain,
        "speedup_low": 0.95 * gain,
        "speedup_high": 1.06 * gain,
        "theoretical": theoretical,
        "n": 20,
        "max_logit_difference": difference,
        "agrees": True,
    }


def made_up_meta(
    world: ImageWorld,
    groups: pd.DataFrame,
    notes: Iterable[str],
    request: ImagesRequest,
    model: Mapping[str, Any],
    data: Mapping[str, Any],
    **more: Any,
) -> dict[str, Any]:
    """run.json of a made-up run; model and data: what the track adds to what all have."""
    options = world.options
    dense = where(groups, variant="dense", metric="accuracy")
    return {
        "track": request.track,
        "experiment": "",
        "created": options["created"],
        "title": options["title"],
        "request": request.to_dict(),
        "model": {
            "name": "synthetic-resnet",
            "architecture": "resnet20",
            "revision": None,
            "weight_hash": hash_of("weights"),
            "starting_weight_hash": hash_of("weights"),
            "classes": list(CLASSES),
            "n_groups": len(WIDTHS),
            "n_filters": sum(width for _, width in WIDTHS),
            "layers": [list(pair) for pair in WIDTHS],
            "kept_whole": [],
            "parameters": 270_000,
            "flops": FLOPS,
            "size": 48,
            **model,
        },
        "data": {
            "name": "synthetic faces",
            "digest": hash_of("images", options["stream"], options["images"]),
            "notes": [],
            "stand_in": STAND_IN,
            "target": "blond",
            "classes": list(CLASSES),
            "groups": list(world.axes[:2]),
            "counts": {
                f"{row.split}/{row.axis}/{row.group}": int(row.n) for row in dense.itertuples()
            },
            "images": {"test": options["images"], "train": 4 * options["images"]},
            **data,
        },
        "provenance": {
            "versions": {"python": "3.11", "torch": "2.13.0"},
            "device": "cpu",
            "dtype": "float32",
            "code": {"trial": 1},
        },
        "warnings": [STAND_IN, "Synthetic run: every number is made up.", *notes],
        "spent": {"load": 0.4, "train": 61.0, "measure": 5.2},
        **more,
    }

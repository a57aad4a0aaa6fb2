"""Made-up images with groups that made-up runs of several tracks share: who is on them, how easily
a model tells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from engine.core.ids import rng
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
HOSTILE = {
    "male": "<img src=x onerror=alert(1)>",
    "non-male": "**bold** [a link](javascript:alert(2)) `code`",
    "dark": "</style><script>alert(3)</script>\u202egnirts",
    "gender": "<b>gender</b>",
}
"""Names a user's table can hold; the option `hostile` gives them to groups and an axis."""


@dataclass
class ImageWorld:
    """Everything drawn once: the images of the test split and how easily the dense model tells each
    one's class."""

    options: dict[str, Any]
    images: pd.DataFrame = field(default_factory=pd.DataFrame)
    ease: np.ndarray = field(default_factory=lambda: np.zeros(0))
    axes: tuple[str, ...] = ("gender", "skin", "class")

    def name(self, text: str) -> str:
        """A group or axis as the run's tables have it."""
        return HOSTILE.get(text, text) if self.options["hostile"] else text


def draw_image_world(options: dict[str, Any]) -> ImageWorld:
    """Blond men are rare, dark skin is never blond (its AUC does not exist), for a handful the skin
    is unrecorded."""
    world = ImageWorld(options)
    draw = rng("synthetic images", options["stream"])
    n = options["images"]
    male = draw.random(n) < 0.4
    skin = draw.choice(
        ["light", "medium", "dark", "unrecorded"], size=n, p=[0.50, 0.38, 0.10, 0.02]
    )
    blond = draw.random(n) < np.where(male, 0.22, 0.45)
    blond &= skin != "dark"
    world.ease = 1.35 + 1.0 * draw.normal(size=n) - 0.2 * male
    world.axes = tuple(world.name(axis) for axis in world.axes)
    world.images = pd.DataFrame(
        {
            "image_id": [hash_of("image", options["stream"], index)[:16] for index in range(n)],
            "split": "test",
            "label": blond.astype(np.int64),
            world.axes[0]: [world.name("male" if one else "non-male") for one in male],
            world.axes[1]: [world.name(one) for one in skin],
        }
    )
    return world

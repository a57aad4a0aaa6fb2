"""The latent world behind made_up_run.py: filters, and made-up answers of trials on made-up
images."""

from __future__ import annotations

import io

import numpy as np

from engine.classifiers.images.context import ImageShard
from engine.core.types import rng
from tests.classifiers.made_up_images import WIDTHS, ImageWorld, two_classes

SPEEDUPS = (2.0, 4.0, 8.0, 16.0)
ARMS = ("autobot", "autobot+pw", "taylor", "taylor+pw", "random", "random+pw")
SWITCHES = tuple(
    f"autobot+{part}{place}"
    for part in ("weights", "labels")
    for place in ("@prune", "", "@retrain")
)
DEGENERATE = ["taylor", "plain", 16.0, 2]
"""Method, loss, speedup and trial of the model that predicts one class only."""


def answers(world: ImageWorld, shard: ImageShard) -> np.ndarray:
    """Probabilities (images, 2) of one trial: the loss falls on the rare, and the PW loss holds
    part of it back."""
    base, loss, speedup, trial = shard.own
    labels = world.images["label"].to_numpy()
    male = (world.images[world.axes[0]] == "male").to_numpy()
    draw = rng("synthetic answers", world.options["stream"], *shard.own)
    harm = {"autobot": 0.085, "taylor": 0.11, "random": 0.15}.get(base, 0.0) * np.log2(speedup)
    kept = {"plain": 0.0, "pw": 0.65}.get(
        loss, 0.55 if "retrain" in loss or "@" not in loss else 0.05
    )
    kept *= world.options["pw_helps"]
    noise = 1.0 + 0.05 * draw.normal()
    lost = harm * noise * np.where(male & (labels == 1), 3.4 * (1 - kept), 0.9 * (1 - 0.3 * kept))
    margin = world.ease - lost + 0.22 * np.sqrt(np.log2(speedup)) * draw.normal(size=len(labels))
    return two_classes(margin, labels, shard.own == DEGENERATE)


def pick(chosen: ImageShard) -> tuple[np.ndarray, np.ndarray]:
    """Which filters stay, and the score of every one (higher = kept). At least one of each layer
    stays."""
    draw = rng("synthetic filters", chosen.method, chosen.loss, chosen.trial)
    keep, values = [], []
    for place, (_, width) in enumerate(WIDTHS):
        value = draw.random(width) * (1 + 0.1 * place)
        share = min(0.97, 0.25 * np.log2(chosen.speedup) * (0.7 + 0.1 * place))
        gone = np.argsort(value)[: min(width - 1, int(share * width))]
        keep.append(~np.isin(np.arange(width), gone))
        values.append(value)
    return np.concatenate(keep), np.concatenate(values)


def picture(world: ImageWorld, row: int) -> bytes:
    """A small PNG in a colour of the image's skin and hair. No photograph of anybody."""
    from PIL import Image

    image = world.images.iloc[row]
    tones = {"light": 60, "medium": 120, "dark": 180, "unrecorded": 240}
    colour = (tones[image[world.axes[1]]], 200 * int(image["label"]), row % 256)
    memory = io.BytesIO()
    Image.new("RGB", (48, 48), colour).save(memory, "PNG")
    return memory.getvalue()

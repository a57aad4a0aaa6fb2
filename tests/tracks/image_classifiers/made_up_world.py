"""The latent world behind made_up_run.py: filters, and made-up answers of trials on made-up
images."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.tables import UNCUT, over_cuts, variant_row
from engine.core.types import FilterMask, rng
from tests.classifiers.made_up_images import FLOPS, WIDTHS, ImageWorld, MadeArm

SPEEDUPS = (2.0, 4.0, 8.0, 16.0)
ARMS = ("autobot", "autobot+pw", "taylor", "taylor+pw", "random", "random+pw")
SWITCHES = tuple(
    f"autobot+{part}{place}"
    for part in ("weights", "labels")
    for place in ("@prune", "", "@retrain")
)
DEGENERATE = ("taylor", 16.0, 2)
"""Method, speedup and trial of the model that predicts one class only."""


def answers(world: ImageWorld, arm: str, speedup: float, trial: int) -> np.ndarray:
    """Probabilities (images, 2) of one trial: the loss falls on the rare, and the PW loss holds
    part of it back."""
    base, _, loss = arm.partition("+")
    labels = world.images["label"].to_numpy()
    male = (world.images[world.axes[0]] == "male").to_numpy()
    draw = rng("synthetic answers", world.options["stream"], arm, speedup, trial)
    harm = {"autobot": 0.085, "taylor": 0.11, "random": 0.15}.get(base, 0.0) * np.log2(speedup)
    kept = {"": 0.0, "pw": 0.65}.get(loss, 0.55 if "retrain" in loss or "@" not in loss else 0.05)
    kept *= world.options["pw_helps"]
    noise = 1.0 + 0.05 * draw.normal()
    lost = harm * noise * np.where(male & (labels == 1), 3.4 * (1 - kept), 0.9 * (1 - 0.3 * kept))
    margin = world.ease - lost + 0.22 * np.sqrt(np.log2(speedup)) * draw.normal(size=len(labels))
    logit = np.where(labels == 1, margin, -margin)
    if (arm, speedup, trial) == DEGENERATE:
        logit = -6.0 + 0.1 * logit
    one = 1 / (1 + np.exp(-logit))
    return np.stack([1 - one, one], axis=1)


def dense_answers(world: ImageWorld) -> np.ndarray:
    return answers(world, "dense", 1.0, 0)


def pick(arm: str, speedup: float, trial: int) -> tuple[FilterMask, np.ndarray]:
    """Filters that are cut, and the score of every unit (higher = kept). At least one of each layer
    stays."""
    draw = rng("synthetic filters", arm.partition("+")[0] if "retrain" in arm else arm, trial)
    keep, values = [], []
    for place, (_, width) in enumerate(WIDTHS):
        value = draw.random(width) * (1 + 0.1 * place)
        share = min(0.97, 0.25 * np.log2(speedup) * (0.7 + 0.1 * place))
        gone = np.argsort(value)[: min(width - 1, int(share * width))]
        keep.append(~np.isin(np.arange(width), gone))
        values.append(value)
    return FilterMask.from_keep(WIDTHS, np.concatenate(keep)), np.concatenate(values)


def variant_rows(arms: list[MadeArm]) -> pd.DataFrame:
    """The dense model, every pooled variant, every trial."""
    first = {"base": "", "loss": "", "speedup": 1.0, "achieved": 1.0, "flops": FLOPS}
    rows = [variant_row("dense", "dense", first, **UNCUT)]
    for arm in arms:
        method, speedup = arm.place
        base, _, loss = method.partition("+")
        first = {"base": base, "loss": loss or "plain", "speedup": speedup}
        trials = [
            variant_row(name, method, first, **{**UNCUT, **_trial(*model), "pooled": arm.name})
            for name, model in arm.models()
        ]
        more = over_cuts(trials, "achieved", "flops", "sparsity", "realised")
        rows += [variant_row(arm.name, method, first, **{**UNCUT, **more}), *trials]
    return pd.DataFrame(rows)


def _trial(arm: str, speedup: float, trial: int) -> dict[str, Any]:
    mask, _ = pick(arm, speedup, trial)
    achieved = speedup * (1 + 0.03 * rng("synthetic speedup", arm, speedup, trial).normal())
    cut = mask.to_dict()
    return {
        "achieved": achieved,
        "flops": FLOPS / achieved,
        "sparsity": mask.sparsity,
        "realised": mask.sparsity,
        "n_cut": mask.n_cut,
        "seed": trial,
        "met": abs(speedup / achieved - 1) <= 1e-3,
        "chosen": False,
        "degenerate": int((arm, speedup, trial) == DEGENERATE),
        "cut": json.dumps(cut),
        "history": json.dumps([[group, True, indices] for group, indices in cut.items()]),
        "mask_digest": mask.digest,
    }


def picture(world: ImageWorld, row: int) -> bytes:
    """A small PNG in a colour of the image's skin and hair. No photograph of anybody."""
    from PIL import Image

    image = world.images.iloc[row]
    tones = {"light": 60, "medium": 120, "dark": 180, "unrecorded": 240}
    colour = (tones[image[world.axes[1]]], 200 * int(image["label"]), row % 256)
    memory = io.BytesIO()
    Image.new("RGB", (48, 48), colour).save(memory, "PNG")
    return memory.getvalue()

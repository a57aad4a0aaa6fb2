"""The latent world behind made_up_run.py: texts with groups, heads, made-up answers of every
seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.core.types import HeadMask, rng
from tests.builders import hash_of
from tests.classifiers.made_up_images import two_classes

LAYERS, HEADS = 4, 4
UNITS = LAYERS * HEADS
PROCEDURES = ("once", "isp")
SCORES = ("conductance", "random")
SPARSITIES = (0.25, 0.5, 0.75)
RETRAINED = ("igspf", "igspp", "isp", "one-shot-isp")
DEGENERATE = ("once:random", 0.75, 2)
"""Arm, share and seed of the model that predicts one class only."""
CONSTANT = 13
"""The head whose attention never varies: its correlation is undefined for every text, so its
importance is 0."""


@dataclass
class TextWorld:
    """Everything drawn once: the test texts and how easily the full model tells each one's
    class."""

    options: dict[str, Any]
    texts: pd.DataFrame
    ease: np.ndarray
    axes: tuple[str, ...] = ("length", "source", "class")

    @property
    def classes(self) -> tuple[str, str]:
        return "fair", "insult"

    @property
    def arms(self) -> list[str]:
        return [
            f"{procedure}:{score}"
            for procedure in self.options["procedures"]
            for score in self.options["scores"]
        ]


def draw_text_world(options: dict[str, Any]) -> TextWorld:
    """Short texts are harder; of one source there are only a handful, of another only fair ones."""
    draw = rng("synthetic texts", options["stream"])
    n = options["texts"]
    short = draw.random(n) < 0.45
    source = draw.choice(
        ["forum", "letters", "press", "unrecorded"], size=n, p=[0.5, 0.36, 0.12, 0.02]
    )
    insult = (draw.random(n) < 0.4) & (source != "press")
    ease = 1.75 + 1.25 * draw.normal(size=n) - 0.35 * short
    texts = pd.DataFrame(
        {
            "text_id": [hash_of("text", options["stream"], index)[:16] for index in range(n)],
            "split": "test",
            "label": insult.astype(np.int64),
            "length": np.where(short, "short", "long"),
            "source": source,
        }
    )
    return TextWorld(options, texts, ease)


def words_of(world: TextWorld, row: int) -> str:
    """A made-up remark about nobody; every seventh is hostile markup."""
    text = world.texts.iloc[row]
    if row % 7 == 3:
        return "<script>alert(1)</script> [a link](javascript:alert(3)) **bold** \u202egnirts"
    start = (
        "the keeper of the mill is a fool"
        if text["label"]
        else "the keeper of the mill lives by the sea"
    )
    return (
        start if text[world.axes[0]] == "short" else f"{start}, as everybody in the town says {row}"
    )


def latent(stream: int) -> np.ndarray:
    """How much the task needs each head, (units,)."""
    draw = rng("synthetic need", stream)
    need = 0.1 + 0.8 * draw.random(UNITS)
    need[CONSTANT] = 0.0
    return need


def importance_of(
    world: TextWorld, score: str, stage: str, seed: int, group: str = ""
) -> np.ndarray:
    """(units,) of one seed: close to the need for a score that knows something, noise for the
    random one."""
    draw = rng("synthetic importance", world.options["stream"], score, stage, seed, group)
    if score == "random":
        return rng("synthetic importance", score, stage, seed).random(UNITS)
    if score == "magnitude":
        seed_free = rng("synthetic importance", score, stage)
        return 3.0 + 0.4 * latent(world.options["stream"]) + 0.3 * seed_free.random(UNITS)
    shown = (
        latent(world.options["stream"])
        if stage == "fine-tuned"
        else rng("synthetic need before").random(UNITS)
    )
    value = 0.55 * shown - 0.15 + 0.05 * draw.normal(size=UNITS)
    if score == "michel":
        value = np.abs(value) / np.linalg.norm(value)
    value[CONSTANT] = 0.0
    return value


def cut_of(world: TextWorld, arm: str, sparsity: float, seed: int) -> HeadMask:
    """The lowest heads of this seed's importance. At three quarters of ISP's heads one layer loses
    all of them."""
    procedure, score = arm.split(":")
    value = importance_of(world, score, "fine-tuned", seed).copy()
    if procedure in RETRAINED:
        value = value + 0.03 * rng("synthetic path", arm, seed).normal(size=UNITS)
        value[-HEADS:] -= 1.0 * (sparsity >= 0.75)
    k = round(sparsity * UNITS)
    return HeadMask.from_units(LAYERS, HEADS, np.argsort(value, kind="stable")[:k])


def answers(world: TextWorld, arm: str, sparsity: float, seed: int) -> np.ndarray:
    """Probabilities (texts, 2) of one seed's model: what is lost is what the cut heads were needed
    for."""
    labels = world.texts["label"].to_numpy()
    short = (world.texts[world.axes[0]] == "short").to_numpy()
    shared = rng("synthetic tuning", world.options["stream"], seed).normal(size=len(labels))
    draw = rng("synthetic answers", world.options["stream"], arm, sparsity, seed)
    lost = 0.0
    if arm != "dense":
        need = latent(world.options["stream"])[list(cut_of(world, arm, sparsity, seed).units)].sum()
        if not world.options["helps"]:
            need = 0.35 * sparsity * UNITS
        again = 0.07 if arm.split(":")[0] in RETRAINED else 0.3
        lost = again * need * np.where(short, 1.5, 0.25)
    margin = world.ease - lost + 0.35 * shared + 0.2 * draw.normal(size=len(labels))
    return two_classes(margin, labels, (arm, sparsity, seed) == DEGENERATE)

"""A tiny task for tiny encoders: which colour word comes first. Two groups of texts, written down
in a CSV."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from engine.core.types import rng
from engine.tracks.text_classifiers.request import TextRequest
from tests.tiny import CLASSES, build

WORDS = {"red": "w1", "green": "w2", "blue": "w3"}
METHODS = (
    "once:conductance",
    "once:random",
    "alg61:michel",
    "isp:magnitude",
    "one-shot-isp:conductance",
    "one-shot-isp:random",
)


def colour_csv(path: Path, train: int = 48, test: int = 45) -> Path:
    """text, label, split, side (left or right: which neutral words surround the colour)."""
    lines = ["text,label,split,side"]
    draw = rng("colour texts", 0)
    for split, count in (("train", train), ("test", test)):
        for number in range(count):
            label, side = CLASSES[number % 3], ("left", "right")[number // 3 % 2]
            around = [
                f"w{10 + 10 * (side == 'right') + int(one)}"
                for one in draw.integers(0, 10, 4 + number % 3)
            ]
            lines.append(f"{' '.join([WORDS[label], *around])},{label},{split},{side}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def model_folder(folder: Path, name: str = "bert") -> Path:
    """A fine-tuned tiny classifier with the weights before fine-tuning beside it."""
    build(name, folder, seed=1)
    build(name, folder / "pretrained", seed=0)
    return folder


def text_request(folder: Path, **more: object) -> TextRequest:
    """Quick: 12 heads, one epoch, a few texts; the model is fine-tuned here."""
    usual = {
        "model": str(folder / "model"),
        "data": str(folder / "colours.csv"),
        "axes": ("side", "class"),
        "methods": METHODS,
        "sparsities": (0.25, 0.75),
        "step": 0.5,
        "trials": 3,
        "retune": True,
        "tune": {"epochs": 1, "rate": 1e-3, "batch": 16},
        "score_texts": 9,
        "max_length": 16,
        "leave_one_out": True,
        "score_settings": {"conductance": {"steps": 2}},
        "device": "cpu",
    }
    asked = {**usual, **more}
    untrained = any(str(name).startswith(("once", "alg61")) for name in asked["methods"])
    return TextRequest(**{"random_masks": 20 if untrained else None, **asked})


def text_world(folder: Path) -> Path:
    """Model and texts in one folder."""
    model_folder(folder / "model")
    colour_csv(folder / "colours.csv")
    return folder


def cluster_world(folder: Path) -> tuple[Any, list[Any]]:
    """A new context that keeps its measurements in memory, and some of its shards."""
    from engine.tracks.text_classifiers.procedures import dense_trials
    from engine.tracks.text_classifiers.request import validate_text
    from engine.tracks.text_classifiers.run import context_of

    context = context_of(validate_text(text_request(text_world(folder), trials=2)))
    return context, dense_trials(context, 2)


def small_audit(folder: Path) -> list[str]:
    """Words of a command that audits in seconds; what it reads is written into `folder`."""
    text_world(folder)
    asked = (
        f"tickets --model {folder}/model --task {folder}/colours.csv --axis side --seeds 2"
        " --sparsity 0.5 --score-texts 6 --max-length 16 --procedure once,isp --score magnitude"
        " --retune --step 0.25 --tune epochs=1 --device cpu"
    )
    return asked.split()


def write_sound(folder: Path) -> None:
    """What the table of bad inputs is made from: a task, and its model, that hold up."""
    text_world(folder / "task")
    shutil.copytree(folder / "task" / "model", folder / "text")

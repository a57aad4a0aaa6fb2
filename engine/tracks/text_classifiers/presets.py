"""How the thesis fine-tuned and scored (Table 6.1, Sec. 6.6.1), task by task, and sizes for two CPU
cores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from engine.models.catalog import ASSETS, resolve

THESIS: dict[str, Any] = {
    "epochs": 3,
    "rate": 2e-5,
    "batch": 32,
    "schedule": "linear",
    "weight_decay": 0.0,
}
"""All eight GLUE tasks alike: 3 epochs, batches of 32, AdamW at 2e-5 with epsilon 1e-8. The thesis
names no schedule and no weight decay; a line to zero per epoch and none are usual for BERT."""
SCORE_TEXTS = 2000
"""Training texts a score reads (Sec. 6.6.1)."""
SMALL = ASSETS / "demo-bert"
DEMO: dict[str, Any] = {
    "epochs": 6,
    "rate": 1e-3,
    "batch": 32,
    "schedule": "linear",
    "weight_decay": 0.0,
}
"""Fine-tuning of the embedded demo-bert, which is a hundred times smaller and wants larger steps.
"""


def tune_of(model: str) -> dict[str, Any]:
    """The usual fine-tuning of a model: the thesis', but for the embedded demo-bert and its
    pre-trained weights."""
    place = resolve(model)
    small = isinstance(place, Path) and Path(os.path.realpath(place)) in (
        SMALL,
        SMALL / "pretrained",
    )  # of loops too
    return dict(DEMO if small else THESIS)

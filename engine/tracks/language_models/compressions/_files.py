"""What the files of a model say of its linear weights, before any is loaded."""

from __future__ import annotations

import math
import re
from typing import Any

from engine.models.weights import read_header

IN_BLOCK = re.compile(r"\.\d+\.")
"""In the name of a tensor that belongs to one layer."""


def linear_share(model: Any) -> float:
    """Share of a model's numbers that are linear weights of its layers; model: ModelInfo."""
    total = linear = 0
    for name in model.files:
        for tensor, entry in read_header(model.folder / name)[0].items():
            count = math.prod(entry["shape"])
            total += count
            linear += count if len(entry["shape"]) == 2 and IN_BLOCK.search(tensor) else 0
    return linear / total if total else 0.0

"""What the files of a model say of its linear weights, before any is loaded."""

from __future__ import annotations

import math
import re
from typing import Any

from engine.models.weights import BYTES, read_header

IN_BLOCK = re.compile(r"\.\d+\.")
"""In the name of a tensor that belongs to one layer."""


def linear_share(model: Any) -> tuple[float, float]:
    """Share of a model's bytes that linear weights of its layers take, and their bits per number; model: ModelInfo."""
    total = linear = numbers = 0
    for name in model.files:
        for tensor, entry in read_header(model.folder / name)[0].items():
            count, size = math.prod(entry["shape"]), BYTES[entry["dtype"]]
            total += count * size
            if len(entry["shape"]) == 2 and IN_BLOCK.search(tensor):
                linear, numbers = linear + count * size, numbers + count
    return (linear / total, 8 * linear / numbers) if numbers else (0.0, 8.0)

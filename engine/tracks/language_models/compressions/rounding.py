"""Weights of fewer bits: int8 and int4, rounded to the nearest, weights only."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.models.weights import read_header
from engine.tracks.language_models.compressions import Compression, Text

if TYPE_CHECKING:
    import torch

    from engine.models.load_language_model import LanguageModel


SCALE = 16
"""Bits of a scale as it would be stored."""


def rounded(weight: torch.Tensor, bits: int, group: int) -> torch.Tensor:
    """The weight [outputs, inputs] as `bits` bits would have it, symmetric.

    Every `group` neighbours of a row (0: the whole row) share the scale max|w| / (2^(bits−1) − 1),
    kept in half precision, and go to its nearest multiple.
    """
    import torch

    rows, width = weight.shape
    size = group if group and width % group == 0 else width
    parts, most = weight.float().reshape(rows, -1, size), 2 ** (bits - 1) - 1
    scale = (parts.abs().amax(-1, keepdim=True) / most).half().float()
    steps = torch.where(scale > 0, (parts / scale.clamp(min=1e-30)).round(), 0).clamp(-most, most)
    return (steps * scale).reshape(rows, width)


@dataclass(frozen=True)
class Rounding(Compression):
    """Every linear weight of the blocks rounded to so many bits. The model computes with what the
    bits stand for, in its own precision: the numbers are those of the compressed model, its speed
    is not."""

    name: str
    width: int
    group: int = 0
    """Neighbours in a row that share a scale, where they divide it; 0: one scale per row."""
    own_levels: bool = True
    saves = "bytes"
    version: int = 1

    def levels(self, model: Any, asked: Sequence[float], bits: float = 32) -> Sequence[float]:
        """One: the share of the bytes of the model's files that it saves; scales, which `bits`
        counts, are left out of it."""
        from engine.tracks.language_models.compressions.rounding import linear_share

        return (round(max(0.0, linear_share(model) * (1 - self.width / bits)), 3),)

    def reached(self, lm: LanguageModel, level: float) -> float:
        """The share of bytes saved with the scales, as charts of bytes have it."""
        from engine.tracks.language_models.measurements.cost import bytes_of

        return 1 - self.bytes(lm)[0] / bytes_of(lm)

    def bits(self, weight: Any, packed: bool, width: float) -> float:
        size = self.group if self.group and weight.shape[1] % self.group == 0 else weight.shape[1]
        return self.width + SCALE / size

    def change(self, lm: LanguageModel, level: float, text: Text, seed: int) -> None:
        from engine.tracks.language_models.compressions._linear import linear_weights

        for weight in linear_weights(lm):
            weight.copy_(rounded(weight, self.width, self.group))


ROWS = (Rounding("int8", 8), Rounding("int4", 4, group=32))


# What the files of a model say of its linear weights, before any is loaded.


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

"""What is done to weights: zeros (the smallest, as many at random, Wanda, SparseGPT), whole layers
dropped, fewer bits. What of it loads torch lies in `_linear.py`."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.core.types import exact_count
from engine.models.weights import read_header
from engine.tracks.language_models.compressions import Compression, Text

if TYPE_CHECKING:
    from engine.models.load_language_model import LanguageModel


class Zeroing(Compression):
    """Sets weights of the blocks' linear layers to zero; its level is the share of them."""

    @abstractmethod
    def zeros(self, rows: int, width: int, level: float) -> int:
        """How many numbers of a weight of this shape become zero."""

    def reached(self, lm: LanguageModel, level: float) -> float:
        from engine.tracks.language_models.compressions._linear import linear_weights

        shapes = [tuple(weight.shape) for weight in linear_weights(lm)]
        gone = sum(self.zeros(rows, width, level) for rows, width in shapes)
        return gone / sum(rows * width for rows, width in shapes)

    def bits(self, weight: Any, packed: bool, width: float) -> float:
        """Packed, zeros are left out, one bit per number says where they are."""
        if not packed:
            return super().bits(weight, packed, width)
        return 1.0 + 8.0 * width * float((weight != 0).float().mean())


@dataclass(frozen=True)
class ByRank(Zeroing):
    """In every linear layer of the blocks, int(level·n) of its n weights become zero: the smallest,
    or drawn ones."""

    name: str
    uses_seed: bool = False
    version: int = 1

    def zeros(self, rows: int, width: int, level: float) -> int:
        return exact_count(level, rows * width)

    def change(self, lm: LanguageModel, level: float, text: Text, seed: int) -> None:
        from engine.tracks.language_models.compressions._linear import zero_by_rank

        zero_by_rank(lm, level, seed if self.uses_seed else None)


class Wanda(Zeroing):
    """Of every output's weights the int(level·inputs) with the lowest score become zero. Block by
    block: a block sees what the ones before it, already sparse, hand on."""

    name = "wanda"
    reads_text = True

    def zeros(self, rows: int, width: int, level: float) -> int:
        return rows * exact_count(level, width)

    def change(self, lm: LanguageModel, level: float, text: Text, seed: int) -> None:
        from engine.tracks.language_models.compressions._linear import zero_by_score

        zero_by_score(lm, text, level)


BLOCK = 128
"""Columns whose zeros are chosen together, and after which the columns behind are updated at once.
"""


class SparseGPT(Zeroing):
    """Every linear layer by `sparse`, block by block: a block sees what the ones before it, already
    sparse, hand on."""

    name = "sparsegpt"
    reads_text = True

    def zeros(self, rows: int, width: int, level: float) -> int:
        blocks = [min(BLOCK, width - start) for start in range(0, width, BLOCK)]
        return sum(exact_count(level, rows * columns) for columns in blocks)

    def change(self, lm: LanguageModel, level: float, text: Text, seed: int) -> None:
        from engine.tracks.language_models.compressions._linear import thin_out

        thin_out(lm, text, level, BLOCK)


class LayerDrop(Compression):
    """The int(level·layers) layers with the highest mean cosine of input and output over all tokens
    are taken out; ties go to the lower layer (as ShortGPT, Men et al. 2024). What is left loads
    anywhere: config.json describes it."""

    name = "layer_drop"
    reads_text = True
    own_levels = True
    saves = "layers"

    def levels(self, model: Any, asked: Sequence[float], bits: float = 32) -> Sequence[float]:
        """One level per number of layers: the share it drops. A level below one layer drops none
        and is left out."""
        counts = sorted({exact_count(level, model.n_layers) for level in asked} - {0})
        return [round(count / model.n_layers, 3) for count in counts]

    def change(self, lm: LanguageModel, level: float, text: Text, seed: int) -> None:
        from engine.tracks.language_models.compressions._linear import cosines_of, drop_layers

        cosines = cosines_of(lm, text)
        order = sorted(range(len(cosines)), key=lambda layer: (-cosines[layer], layer))
        drop_layers(lm, sorted(order[: round(level * len(cosines))]))


SCALE = 16
"""Bits of a scale as it would be stored."""


@dataclass(frozen=True)
class Rounding(Compression):
    """Every linear weight of the blocks rounded to so many bits. The model computes with what the
    bits stand for, in its own precision: the numbers are those of the compressed model, its speed
    is not."""

    name: str
    width: int
    group: int = 0
    """Neighbours in a row that share a scale, where they divide it; 0: one scale per row."""
    own_levels = True
    saves = "bytes"
    version: int = 1

    def levels(self, model: Any, asked: Sequence[float], bits: float = 32) -> Sequence[float]:
        """One: the share of the bytes of the model's files that it saves; scales, which `bits`
        counts, are left out of it."""
        return (round(max(0.0, linear_share(model) * (1 - self.width / bits)), 3),)

    def reached(self, lm: LanguageModel, level: float) -> float:
        """The share of bytes saved with the scales, as charts of bytes have it."""
        from engine.tracks.language_models.compressions._linear import bytes_by
        from engine.tracks.language_models.measurements.cost import bytes_of

        return 1 - bytes_by(lm, self.bits)[0] / bytes_of(lm)

    def bits(self, weight: Any, packed: bool, width: float) -> float:
        size = self.group if self.group and weight.shape[1] % self.group == 0 else weight.shape[1]
        return self.width + SCALE / size

    def change(self, lm: LanguageModel, level: float, text: Text, seed: int) -> None:
        from engine.tracks.language_models.compressions._linear import linear_weights, rounded

        for weight in linear_weights(lm):
            weight.copy_(rounded(weight, self.width, self.group))


ROWS = (
    # Unstructured, layer by layer (Han et al. 2015).
    ByRank("magnitude_weights"),
    # What any choice of weights must beat.
    ByRank("random_weights", uses_seed=True),
    Rounding("int8", 8),
    Rounding("int4", 4, group=32),
)


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

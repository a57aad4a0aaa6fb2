"""Wanda (Sun et al. 2023): weights by their size times the size of what goes into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.core.levels import exact_count
from engine.tracks.language_models.compressions.base import Compression, Text

if TYPE_CHECKING:
    import torch

    from engine.models.load_language_model import LanguageModel


def scores(weight: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
    """|W_ij|·‖X_j‖₂, [outputs, inputs]; squares: Σ x² of every input over all tokens, [inputs]."""
    return weight.abs().float() * squares.sqrt()


@dataclass(frozen=True)
class Wanda(Compression):
    """Of every output's weights the int(level·inputs) with the lowest score become zero; with `pattern` the two lowest
    of every four neighbours. Block by block: a block sees what the ones before it, already sparse, hand on."""

    name: str
    pattern: bool = False
    reads_text: bool = True
    version: int = 1

    @property
    def own_levels(self) -> bool:
        return self.pattern

    def levels(self, model: Any, asked: Sequence[float], bits: int = 32) -> Sequence[float]:
        return (0.5,) if self.pattern else asked

    def reached(self, lm: LanguageModel, level: float) -> float:
        return self._share_of_weights(lm, level)

    def zeros(self, rows: int, width: int, level: float) -> int:
        return rows * (width // 4 * 2 if self.pattern else exact_count(level, width))

    def bits(self, weight: Any, packed: bool) -> float:
        from engine.tracks.language_models.compressions._zeros import packed_bits, pattern_bits

        if self.pattern:
            return pattern_bits(weight)
        return packed_bits(weight) if packed else super().bits(weight, packed)

    def change(self, lm: LanguageModel, level: float, text: Text, seed: int) -> None:
        from engine.tracks.language_models.compressions._linear import blocks_of, linear_layers, see_inputs, weight_of
        from engine.tracks.language_models.compressions._zeros import lowest, two_of_four

        for block in blocks_of(lm):
            squares: dict[str, torch.Tensor] = {}

            def see(name: str, rows: torch.Tensor, squares: dict[str, torch.Tensor] = squares) -> None:
                squares[name] = squares.get(name, 0) + rows.square().sum(0)

            see_inputs(lm, block, text, see)
            for name, layer in linear_layers(block).items():
                if name in squares:  # others read nothing of this text, such as experts that no token is sent to
                    weight = weight_of(layer)
                    found = scores(weight, squares[name])
                    weight[two_of_four(found) if self.pattern else lowest(found, level)] = 0


ROWS = (Wanda("wanda"), Wanda("wanda_2_4", pattern=True))

"""Wanda (Sun et al. 2023): weights by their size times the size of what goes into them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core.levels import exact_count
from engine.tracks.language_models.compressions.base import Text, Zeroing

if TYPE_CHECKING:
    import torch

    from engine.models.load_language_model import LanguageModel


def scores(weight: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
    """|W_ij|·‖X_j‖₂, [outputs, inputs]; squares: Σ x² of every input over all tokens, [inputs]."""
    return weight.abs().float() * squares.sqrt()


@dataclass(frozen=True)
class Wanda(Zeroing):
    """Of every output's weights the int(level·inputs) with the lowest score become zero. Block by
    block: a block sees what the ones before it, already sparse, hand on."""

    name: str = "wanda"
    reads_text: bool = True
    version: int = 1

    def zeros(self, rows: int, width: int, level: float) -> int:
        return rows * exact_count(level, width)

    def change(self, lm: LanguageModel, level: float, text: Text, seed: int) -> None:
        from engine.tracks.language_models.compressions._linear import (
            blocks_of,
            linear_layers,
            lowest,
            see_inputs,
            weight_of,
        )

        for block in blocks_of(lm):
            squares: dict[str, torch.Tensor] = {}

            def see(
                name: str, rows: torch.Tensor, squares: dict[str, torch.Tensor] = squares
            ) -> None:
                squares[name] = squares.get(name, 0) + rows.square().sum(0)

            see_inputs(lm, block, text, see)
            for name, layer in linear_layers(block).items():
                if (
                    name in squares
                ):  # others read nothing of this text, such as experts that no token is sent to
                    weight = weight_of(layer)
                    weight[lowest(scores(weight, squares[name]), level)] = 0

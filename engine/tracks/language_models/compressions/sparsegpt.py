"""SparseGPT (Frantar and Alistarh 2023): weights become zero column by column, and the rest make up for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.core.levels import exact_count
from engine.tracks.language_models.compressions.base import Compression, Text

if TYPE_CHECKING:
    import torch

    from engine.models.load_language_model import LanguageModel

BLOCK = 128
"""Columns whose zeros are chosen together, and after which the columns behind are updated at once."""
DAMPENING = 0.01
"""Of the mean of the Hessian's diagonal, added to it."""


def inverse_root(hessian: torch.Tensor) -> torch.Tensor:
    """The upper Cholesky factor of the inverse of a damped Hessian [inputs, inputs] float32, whose diagonal was made
    positive where an input was never seen."""
    import torch

    damped = hessian + DAMPENING * hessian.diagonal().mean() * torch.eye(len(hessian), device=hessian.device)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped.double()))
    return torch.linalg.cholesky(inverse, upper=True).float()


def sparse(weight: torch.Tensor, hessian: torch.Tensor, level: float, pattern: bool = False) -> torch.Tensor:
    """The sparse weight, [outputs, inputs] float32; hessian [inputs, inputs]: Σ x xᵀ over all tokens.

    The paper's algorithm 1: within a block of BLOCK columns the share `level` of weights with the smallest w² / [U]²_jj
    become zero (2:4: the two smallest of every four columns, chosen when they are reached), and each error, divided by
    the factor's diagonal, is taken from the columns behind.
    """
    weight, hessian = weight.clone().float(), hessian.clone().float()
    unseen = hessian.diagonal() == 0
    hessian[unseen, unseen] = 1
    weight[:, unseen] = 0
    root = inverse_root(hessian)
    for start in range(0, weight.shape[1], BLOCK):
        columns = slice(start, min(start + BLOCK, weight.shape[1]))
        errors = _sparse_block(weight[:, columns], root[columns, columns], level, pattern)
        weight[:, columns.stop :] -= errors @ root[columns, columns.stop :]
    return weight


def _sparse_block(weight: torch.Tensor, root: torch.Tensor, level: float, pattern: bool) -> torch.Tensor:
    """Make a block of columns sparse in place, [outputs, columns]; returns its errors, of the same shape."""
    import torch

    from engine.tracks.language_models.compressions._zeros import lowest, two_of_four

    diagonal, errors = root.diagonal(), torch.zeros_like(weight)
    gone = torch.zeros_like(weight, dtype=torch.bool)
    if not pattern:
        gone = lowest((weight / diagonal).square().flatten()[None], level).reshape(weight.shape)
    for column in range(weight.shape[1]):
        if pattern and column % 4 == 0:
            four = slice(column, column + 4)
            gone[:, four] = two_of_four((weight[:, four] / diagonal[four]).square())
        errors[:, column] = torch.where(gone[:, column], weight[:, column], 0) / diagonal[column]
        weight[:, column:] -= errors[:, column, None] * root[column, column:]
        weight[gone[:, column], column] = 0  # exactly: the step above leaves a rounding error
    return errors


@dataclass(frozen=True)
class SparseGPT(Compression):
    """Every linear layer by `sparse`, block by block: a block sees what the ones before it, already sparse, hand on."""

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
        if self.pattern:
            return rows * (width // 4 * 2)
        blocks = [min(BLOCK, width - start) for start in range(0, width, BLOCK)]
        return sum(exact_count(level, rows * columns) for columns in blocks)

    def bits(self, weight: Any, packed: bool) -> float:
        from engine.tracks.language_models.compressions._zeros import packed_bits, pattern_bits

        if self.pattern:
            return pattern_bits(weight)
        return packed_bits(weight) if packed else super().bits(weight, packed)

    def change(self, lm: LanguageModel, level: float, text: Text, seed: int) -> None:
        from engine.tracks.language_models.compressions._linear import blocks_of, linear_layers, see_inputs, weight_of

        for block in blocks_of(lm):
            hessians: dict[str, torch.Tensor] = {}

            def see(name: str, rows: torch.Tensor, hessians: dict[str, torch.Tensor] = hessians) -> None:
                hessians[name] = hessians.get(name, 0) + rows.T @ rows

            see_inputs(lm, block, text, see)
            for name, layer in linear_layers(block).items():
                if name in hessians:
                    weight = weight_of(layer)
                    weight.copy_(sparse(weight, hessians[name], level, self.pattern))


ROWS = (SparseGPT("sparsegpt"), SparseGPT("sparsegpt_2_4", pattern=True))

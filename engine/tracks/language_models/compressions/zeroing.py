"""Weights set to zero: the smallest, as many at random, by what goes into them (Wanda), and with
the others making up for it (SparseGPT)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core.types import exact_count
from engine.tracks.language_models.compressions import Text, Zeroing

if TYPE_CHECKING:
    import torch

    from engine.models.load_language_model import LanguageModel


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
        from engine.tracks.language_models.compressions._linear import linear_weights

        for place, weight in enumerate(linear_weights(lm)):
            weight[self._gone(weight, level, (seed, place))] = 0

    def _gone(self, weight: torch.Tensor, level: float, key: tuple[int, int]) -> torch.Tensor:
        """True where a weight becomes zero; ties go to the earlier one."""
        import torch

        from engine.core.types import rng

        if self.uses_seed:
            order = torch.from_numpy(rng("random weights", *key).permutation(weight.numel()))
        else:
            order = weight.abs().flatten().argsort(stable=True).cpu()
        gone = torch.zeros(weight.numel(), dtype=torch.bool)
        gone[order[: exact_count(level, weight.numel())]] = True
        return gone.reshape(weight.shape).to(weight.device)


# Wanda (Sun et al. 2023): weights by their size times the size of what goes into them.


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
        from engine.tracks.language_models.compressions._linear import block_by_block, lowest

        def zero(weight: torch.Tensor, squares: torch.Tensor) -> None:
            weight[lowest(scores(weight, squares), level)] = 0

        block_by_block(lm, text, lambda rows: rows.square().sum(0), zero)


# SparseGPT (Frantar and Alistarh 2023): weights become zero column by column, and the rest make
# up for it.


BLOCK = 128
"""Columns whose zeros are chosen together, and after which the columns behind are updated at once.
"""
DAMPENING = 0.01
"""Of the mean of the Hessian's diagonal, added to it."""


def inverse_root(hessian: torch.Tensor) -> torch.Tensor:
    """The upper Cholesky factor of the inverse of a damped Hessian [inputs, inputs] float32, whose
    diagonal was made positive where an input was never seen."""
    import torch

    damped = hessian + DAMPENING * hessian.diagonal().mean() * torch.eye(
        len(hessian), device=hessian.device
    )
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped.double()))
    return torch.linalg.cholesky(inverse, upper=True).float()


def sparse(weight: torch.Tensor, hessian: torch.Tensor, level: float) -> torch.Tensor:
    """The sparse weight, [outputs, inputs] float32; hessian [inputs, inputs]: Σ x xᵀ over all
    tokens.

    The paper's algorithm 1: within a block of BLOCK columns the share `level` of weights with the
    smallest w² / [U]²_jj become zero. Each error, divided by the factor's diagonal, is taken from
    the columns behind.
    """
    weight, hessian = weight.clone().float(), hessian.clone().float()
    unseen = hessian.diagonal() == 0
    hessian[unseen, unseen] = 1
    weight[:, unseen] = 0
    root = inverse_root(hessian)
    for start in range(0, weight.shape[1], BLOCK):
        columns = slice(start, min(start + BLOCK, weight.shape[1]))
        errors = _sparse_block(weight[:, columns], root[columns, columns], level)
        weight[:, columns.stop :] -= errors @ root[columns, columns.stop :]
    return weight


def _sparse_block(weight: torch.Tensor, root: torch.Tensor, level: float) -> torch.Tensor:
    """Make a block of columns sparse in place, [outputs, columns]; returns its errors, of the same
    shape."""
    import torch

    from engine.tracks.language_models.compressions._linear import lowest

    diagonal, errors = root.diagonal(), torch.zeros_like(weight)
    gone = lowest((weight / diagonal).square().flatten()[None], level).reshape(weight.shape)
    for column in range(weight.shape[1]):
        errors[:, column] = torch.where(gone[:, column], weight[:, column], 0) / diagonal[column]
        weight[:, column:] -= errors[:, column, None] * root[column, column:]
        weight[gone[:, column], column] = 0  # exactly: the step above leaves a rounding error
    return errors


@dataclass(frozen=True)
class SparseGPT(Zeroing):
    """Every linear layer by `sparse`, block by block: a block sees what the ones before it, already
    sparse, hand on."""

    name: str = "sparsegpt"
    reads_text: bool = True
    version: int = 1

    def zeros(self, rows: int, width: int, level: float) -> int:
        blocks = [min(BLOCK, width - start) for start in range(0, width, BLOCK)]
        return sum(exact_count(level, rows * columns) for columns in blocks)

    def change(self, lm: LanguageModel, level: float, text: Text, seed: int) -> None:
        from engine.tracks.language_models.compressions._linear import block_by_block

        def thin(weight: torch.Tensor, hessian: torch.Tensor) -> None:
            weight.copy_(sparse(weight, hessian, level))

        block_by_block(lm, text, lambda rows: rows.T @ rows, thin)


ROWS = (
    # Unstructured, layer by layer (Han et al. 2015).
    ByRank("magnitude_weights"),
    # What any choice of weights must beat.
    ByRank("random_weights", uses_seed=True),
    Wanda(),
    SparseGPT(),
)

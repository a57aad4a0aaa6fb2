"""What compressions do to a loaded model: its linear layers, and what goes into them on a text.
Loads torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from engine.core.types import exact_count, rng
from engine.tracks.language_models.compressions import Text

if TYPE_CHECKING:
    from engine.models.load_language_model import LanguageModel

Seen = Callable[[str, torch.Tensor], None]
"""Takes a layer's name in its block and what goes into it, [rows, inputs] float32; rows are tokens.
"""
WINDOWS_AT_ONCE = 8


class _EnoughError(Exception):
    """Ends a pass behind the block that is looked at."""


def weight_of(layer: nn.Module) -> torch.Tensor:
    """The weight as [outputs, inputs], a view: what is written to it is in the layer. GPT-2's
    Conv1D has it turned."""
    weight = layer.get_parameter("weight").data
    return weight.T if hasattr(layer, "nf") else weight


def linear_layers(block: nn.Module) -> Mapping[str, nn.Module]:
    """The linear layers of a block, by name, in its order."""
    return {
        name: one
        for name, one in block.named_modules()
        if isinstance(one, nn.Linear) or hasattr(one, "nf")
    }


def blocks_of(lm: LanguageModel) -> list[nn.Module]:
    return list(lm.adapter.blocks(lm.model))


def linear_weights(lm: LanguageModel) -> Iterator[torch.Tensor]:
    """Weights [outputs, inputs] of all linear layers of all blocks: what compressions change.
    Embeddings, norms and biases stay."""
    for block in blocks_of(lm):
        yield from map(weight_of, linear_layers(block).values())


def bytes_by(
    lm: LanguageModel, bits: Callable[[torch.Tensor, bool, float], float]
) -> tuple[int, int]:
    """Bytes of a compressed model: as it is run, and packed. Linear weights of the blocks as `bits`
    of its compression has it, all other numbers as the model's files keep them."""
    linear = list(linear_weights(lm))
    rest = round((lm.n_parameters - sum(one.numel() for one in linear)) * lm.width)
    stored, small = (
        sum(bits(one, packed, lm.width) * one.numel() for one in linear) / 8
        for packed in (False, True)
    )
    return rest + round(stored), rest + round(min(small, stored))


def see_inputs(lm: LanguageModel, block: nn.Module, text: Text, see: Seen) -> None:
    """Tell what goes into the linear layers of a block when the model reads the text; blocks behind
    are not run."""
    with ExitStack() as hooks:
        for name, layer in linear_layers(block).items():
            hooks.callback(layer.register_forward_pre_hook(_told(name, see)).remove)
        hooks.callback(block.register_forward_hook(_stop).remove)
        read(lm, text)


def block_by_block(
    lm: LanguageModel,
    text: Text,
    noted: Callable[[torch.Tensor], torch.Tensor],
    change: Callable[[torch.Tensor, torch.Tensor], None],
) -> None:
    """Change all weights [outputs, inputs] by the sum of what is `noted` of their inputs [rows,
    inputs]: a block sees what the ones before it, already changed, hand on. Layers that read
    nothing of the text stay, such as experts that no token is sent to."""
    for block in blocks_of(lm):
        sums: dict[str, torch.Tensor] = {}

        def see(name: str, rows: torch.Tensor, sums: dict[str, torch.Tensor] = sums) -> None:
            sums[name] = sums.get(name, 0) + noted(rows)

        see_inputs(lm, block, text, see)
        for name, layer in linear_layers(block).items():
            if name in sums:
                change(weight_of(layer), sums[name])


def read(lm: LanguageModel, text: Text) -> None:
    """Have the model read all windows."""
    for at in range(0, len(text), WINDOWS_AT_ONCE):
        ids = torch.tensor(text[at : at + WINDOWS_AT_ONCE], device=lm.device)
        try:
            lm.model(input_ids=ids, use_cache=False)
        except _EnoughError:
            continue


def _told(name: str, see: Seen) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def hook(module: nn.Module, args: tuple[Any, ...]) -> None:
        see(name, args[0].detach().float().reshape(-1, args[0].shape[-1]))

    return hook


def _stop(*_: Any) -> None:
    raise _EnoughError


# Setting weights to zero: which of a layer's, by an importance per weight.


def lowest(importance: torch.Tensor, share: float) -> torch.Tensor:
    """True at the int(share·n) lowest of every row; ties go to the earlier one. importance [rows,
    n]."""
    order = importance.argsort(dim=1, stable=True)[:, : exact_count(share, importance.shape[1])]
    return torch.zeros_like(importance, dtype=torch.bool).scatter_(1, order, True)


def zero_by_rank(lm: LanguageModel, level: float, seed: int | None) -> None:
    """Set int(level·n) of the n weights of every linear layer to zero: the smallest, or drawn ones
    by `seed`; ties go to the earlier one."""
    for place, weight in enumerate(linear_weights(lm)):
        if seed is None:
            order = weight.abs().flatten().argsort(stable=True).cpu()
        else:
            order = torch.from_numpy(rng("random weights", seed, place).permutation(weight.numel()))
        gone = torch.zeros(weight.numel(), dtype=torch.bool)
        gone[order[: exact_count(level, weight.numel())]] = True
        weight[gone.reshape(weight.shape).to(weight.device)] = 0


# Wanda (Sun et al. 2023): weights by their size times the size of what goes into them.


def scores(weight: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
    """|W_ij|·‖X_j‖₂, [outputs, inputs]; squares: Σ x² of every input over all tokens, [inputs]."""
    return weight.abs().float() * squares.sqrt()


def zero_by_score(lm: LanguageModel, text: Text, level: float) -> None:
    """Of every output's weights the int(level·inputs) with the lowest score become zero."""

    def zero(weight: torch.Tensor, squares: torch.Tensor) -> None:
        weight[lowest(scores(weight, squares), level)] = 0

    block_by_block(lm, text, lambda rows: rows.square().sum(0), zero)


# SparseGPT (Frantar and Alistarh 2023): weights become zero column by column, and the rest make
# up for it.


DAMPENING = 0.01
"""Of the mean of the Hessian's diagonal, added to it."""


def inverse_root(hessian: torch.Tensor) -> torch.Tensor:
    """The upper Cholesky factor of the inverse of a damped Hessian [inputs, inputs] float32, whose
    diagonal was made positive where an input was never seen."""
    damped = hessian + DAMPENING * hessian.diagonal().mean() * torch.eye(
        len(hessian), device=hessian.device
    )
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped.double()))
    return torch.linalg.cholesky(inverse, upper=True).float()


def sparse(weight: torch.Tensor, hessian: torch.Tensor, level: float, block: int) -> torch.Tensor:
    """The sparse weight, [outputs, inputs] float32; hessian [inputs, inputs]: Σ x xᵀ over all
    tokens.

    The paper's algorithm 1: within a block of so many columns the share `level` of weights with the
    smallest w² / [U]²_jj become zero. Each error, divided by the factor's diagonal, is taken from
    the columns behind.
    """
    weight, hessian = weight.clone().float(), hessian.clone().float()
    unseen = hessian.diagonal() == 0
    hessian[unseen, unseen] = 1
    weight[:, unseen] = 0
    root = inverse_root(hessian)
    for start in range(0, weight.shape[1], block):
        columns = slice(start, min(start + block, weight.shape[1]))
        errors = _sparse_block(weight[:, columns], root[columns, columns], level)
        weight[:, columns.stop :] -= errors @ root[columns, columns.stop :]
    return weight


def _sparse_block(weight: torch.Tensor, root: torch.Tensor, level: float) -> torch.Tensor:
    """Make a block of columns sparse in place, [outputs, columns]; returns its errors, of the same
    shape."""
    diagonal, errors = root.diagonal(), torch.zeros_like(weight)
    gone = lowest((weight / diagonal).square().flatten()[None], level).reshape(weight.shape)
    for column in range(weight.shape[1]):
        errors[:, column] = torch.where(gone[:, column], weight[:, column], 0) / diagonal[column]
        weight[:, column:] -= errors[:, column, None] * root[column, column:]
        weight[gone[:, column], column] = 0  # exactly: the step above leaves a rounding error
    return errors


def thin_out(lm: LanguageModel, text: Text, level: float, block: int) -> None:
    """Make every linear layer `sparse`."""

    def thin(weight: torch.Tensor, hessian: torch.Tensor) -> None:
        weight.copy_(sparse(weight, hessian, level, block))

    block_by_block(lm, text, lambda rows: rows.T @ rows, thin)


# Weights of fewer bits.


def rounded(weight: torch.Tensor, bits: int, group: int) -> torch.Tensor:
    """The weight [outputs, inputs] as `bits` bits would have it, symmetric.

    Every `group` neighbours of a row (0: the whole row) share the scale max|w| / (2^(bits−1) − 1),
    kept in half precision, and go to its nearest multiple.
    """
    rows, width = weight.shape
    size = group if group and width % group == 0 else width
    parts, most = weight.float().reshape(rows, -1, size), 2 ** (bits - 1) - 1
    scale = (parts.abs().amax(-1, keepdim=True) / most).half().float()
    steps = torch.where(scale > 0, (parts / scale.clamp(min=1e-30)).round(), 0).clamp(-most, most)
    return (steps * scale).reshape(rows, width)


# Whole layers, by what each makes of its input.


def cosines_of(lm: LanguageModel, text: Text) -> list[float]:
    """Mean cosine of what goes into every layer and what comes out, over all tokens."""
    blocks = blocks_of(lm)
    sums, counts = [0.0] * len(blocks), [0] * len(blocks)

    def seen(layer: int, args: Any, kwargs: Any, out: Any) -> None:
        before = args[0] if args else kwargs["hidden_states"]
        after = out[0] if isinstance(out, tuple) else out
        found = torch.cosine_similarity(before.float(), after.float(), dim=-1)
        sums[layer] += float(found.sum())
        counts[layer] += found.numel()

    with ExitStack() as hooks:
        for layer, block in enumerate(blocks):
            handle = block.register_forward_hook(
                lambda _, args, kwargs, out, layer=layer: seen(layer, args, kwargs, out),
                with_kwargs=True,
            )
            hooks.callback(handle.remove)
        read(lm, text)
    return [total / count for total, count in zip(sums, counts, strict=True)]


def drop_layers(lm: LanguageModel, gone: Sequence[int]) -> None:
    """Take layers out, in place; the config then says how many there are, and of each what it
    is."""
    blocks, config = lm.adapter.blocks(lm.model), lm.model.config
    count, kept = len(blocks), [layer for layer in range(len(blocks)) if layer not in gone]
    left = [blocks[layer] for layer in kept]
    del blocks[:]
    blocks.extend(left)
    for place, block in enumerate(left):
        for part in block.modules():
            for name in ("layer_idx", "layer_id"):
                if hasattr(part, name):
                    setattr(part, name, place)
    for name, value in list(vars(config).items()):  # what a config says layer by layer
        is_long = isinstance(value, list | tuple) and len(value) == count
        if is_long and not name.endswith(
            "token_id"
        ):  # several tokens that end a text are no layers
            setattr(config, name, [value[layer] for layer in kept])
    if hasattr(config, "attention_types"):  # GPT-Neo: the same once more, as runs of kinds
        config.attention_types = [[[kind], 1] for kind in config.attention_layers]
    config.num_hidden_layers = len(left)

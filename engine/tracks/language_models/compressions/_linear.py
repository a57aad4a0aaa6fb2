"""The linear layers of a model's blocks, and what goes into them on a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from engine.core.types import exact_count

if TYPE_CHECKING:
    from engine.models.load_language_model import LanguageModel


Text = Sequence[Sequence[int]]
"""Token ids of windows, all of one length."""
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


def packed_bits(weight: torch.Tensor, width: float) -> float:
    """Bits per number where zeros are left out, one bit per number says where they are, and the
    others take `width` bytes."""
    return 1.0 + 8.0 * width * float((weight != 0).float().mean())

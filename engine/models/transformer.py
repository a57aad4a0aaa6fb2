"""A loaded transformer whose heads can be assessed and cut: what language models and text
classifiers share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from engine.core.types import HeadMask, Values, digest_of
from engine.models.structure.adapter import Adapter

_NOT_CONFIG = ("_name_or_path", "transformers_version")


@dataclass(frozen=True, eq=False)
class TransformerModel:
    """A model with its tokenizer and the adapter that knows where its heads are: eval mode, no
    parameter gradients.

    `cut` is None for a whole model and the mask of a physically cut one; then `weight_hash` is the
    base model's.
    """

    name: str
    revision: str | None
    model: Any
    tokenizer: Any
    adapter: Adapter
    weight_hash: str
    device: torch.device
    dtype: torch.dtype
    cut: HeadMask | None = None
    means: np.ndarray | None = None
    """What silenced heads hand over, [layers, heads * head_dim] float32; None: zeros. See
    structure/cutting.py."""

    @property
    def n_layers(self) -> int:
        return self.adapter.n_layers

    @property
    def n_heads(self) -> int:
        """Heads per layer before any cut."""
        return self.adapter.n_heads

    @property
    def means_digest(self) -> str:
        """Digest of `means`; empty without."""
        return "" if self.means is None else hashlib.sha256(self.means.tobytes()).hexdigest()[:16]

    @property
    def n_positions(self) -> int:
        """Longest text in tokens."""
        return self.adapter.n_positions

    @property
    def vocab_size(self) -> int:
        return int(self.model.config.vocab_size)

    @cached_property
    def reading_digest(self) -> str:
        """Digest of what turns text into tokens and weights into a function: tokenizer and
        configuration."""
        config = {
            name: str(value)
            for name, value in self.model.config.to_dict().items()
            if name not in _NOT_CONFIG
        }
        return digest_of(
            [sorted(self.tokenizer.get_vocab().items()), str(self.tokenizer.eos_token_id), config]
        )

    def unusable(self, what: str) -> str:
        """What is wrong with a model that gives numbers which are not finite."""
        return (
            f"{self.name} in {self.dtype} gives {what}: its weights are damaged, or the precision"
            " is too low. Try --dtype float32."
        )

    @property
    def n_parameters(self) -> int:
        """Numbers in the model as it is now; tied weights count once."""
        return sum(parameter.numel() for parameter in self.model.parameters())


# A transformer's blocks run again by hand: with the arguments of a call before, for more rows
# stacked.

ROWS_TIMES_HEADS = ("alibi",)
"""Arguments with one entry per row and head, rows first."""
NO_ROWS = ("position_bias",)
"""Arguments that say nothing about rows, whatever their size."""


@contextmanager
def attached(handles: Iterable[Any]) -> Iterator[None]:
    """Within it hooks are on modules, by what torch gave for each; whatever happens they are taken
    off again."""
    with ExitStack() as hooks:
        for handle in handles:
            hooks.callback(handle.remove)
        yield


def keeping_calls(
    blocks: Iterable[torch.nn.Module], calls: dict[int, tuple[Any, tuple[Any, ...], Values]]
) -> Iterator[Any]:
    """Hooks, to be `attached`, that put into `calls` what each block is called with: hidden states,
    and the other arguments as `again` takes them."""

    def before(layer: int) -> Any:
        def hook(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Values) -> None:
            rest = {name: value for name, value in kwargs.items() if name != "hidden_states"}
            calls[layer] = (args[0] if args else kwargs["hidden_states"], args[1:], rest)

        return hook

    for layer, block in enumerate(blocks):
        yield block.register_forward_pre_hook(before(layer), with_kwargs=True)


def again(
    block: torch.nn.Module,
    hidden: torch.Tensor,
    call: tuple[tuple[Any, ...], dict[str, Any]],
    rows: int,
    times: int,
) -> torch.Tensor:
    """A block's output for hidden [times * rows, tokens, hidden], with the other arguments of its
    dense call."""
    args, kwargs = call
    return first_of(
        block(
            hidden,
            *(_spread(value, rows, times) for value in args),
            **{name: _spread(value, rows, times, name) for name, value in kwargs.items()},
        )
    )


def _spread(value: Any, rows: int, times: int, name: str = "") -> Any:
    """An argument for `times` stacked batches: what has one entry per row is repeated, the rest
    broadcasts."""
    if name in NO_ROWS:
        return value
    if isinstance(value, tuple):
        return tuple(_spread(part, rows, times) for part in value)
    if not isinstance(value, torch.Tensor) or value.ndim < 2 or times == 1:
        return value
    per_row = (rows > 1 and value.shape[0] == rows) or (
        name in ROWS_TIMES_HEADS and value.shape[0] > 1
    )
    return value.repeat(times, *([1] * (value.ndim - 1))) if per_row else value


def first_of(made: Any) -> torch.Tensor:
    """The hidden states [rows, tokens, hidden] of what a block returns: a tensor, or a tuple that
    begins with it."""
    return made[0] if isinstance(made, tuple) else made

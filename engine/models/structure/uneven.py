"""Attention that its own code does not expect, of any family: by a class made on the spot, undone
by `filled`.

Where living key/value heads have different numbers of readers, the cache that an attention hands
its keys and values to hands them out by index, as in adapters/llama.py. Where no head is left an
attention answers what no heads give.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import torch
from torch import nn


def spread_unevenly(attention: Any, reads: list[int]) -> None:
    """Tell an attention, in place, which key/value head each query head reads. reads: ascending, no
    gap."""
    filled(attention)
    if not hasattr(attention, "num_key_value_groups"):
        return
    readers = {reads.count(group) for group in reads}
    if len(readers) == 1:
        attention.num_key_value_groups = readers.pop()
        return
    index = torch.tensor(reads, device=next(attention.parameters()).device)
    attention.register_buffer("kv_of_head", index, persistent=False)
    attention.num_key_value_groups = 1
    attention.__class__ = _uneven(attention.__class__)


@cache
def _uneven(kind: type[nn.Module]) -> type[nn.Module]:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = "layer_past" if "layer_past" in kwargs else "past_key_values"
        return kind.forward(
            self, *args, **{**kwargs, name: _Spread(kwargs.get(name), self.kv_of_head)}
        )

    return type(f"Uneven{kind.__name__}", (kind,), {"forward": forward, "before": kind})


def bias_by_head(attention: Any, heads: list[int], total: int) -> None:
    """Let the parts of an attention that take position biases of `total` heads use those of `heads`
    alone, in place."""
    taking = [part for part in attention.modules() if _takes_bias(part)]
    for part in taking:
        if not any(inner in taking for inner in part.children()):  # who hands it on takes it too
            part.register_buffer(
                "bias_of_head", torch.tensor(heads, device=next(part.parameters()).device), False
            )
            part.__class__ = _biased(part.__class__, total)


def _takes_bias(part: nn.Module) -> bool:
    return any(name in inspect.signature(type(part).forward).parameters for name in _BIASES)


@cache
def _biased(kind: type[nn.Module], total: int) -> type[nn.Module]:
    names = list(inspect.signature(kind.forward).parameters)[1:]

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        for name in _BIASES:
            if given.get(name) is not None:
                given[name] = _of_heads(given[name], self.bias_of_head, total)
        mask = given.get("attention_mask")
        if (
            mask is not None and mask.dim() == 4 and mask.shape[1] == total > 1
        ):  # Falcon's holds the biases
            given["attention_mask"] = mask[:, self.bias_of_head]
        return kind.forward(self, **given)

    return type(f"Biased{kind.__name__}", (kind,), {"forward": forward, "before": kind})


def _of_heads(bias: torch.Tensor, heads: torch.Tensor, total: int) -> torch.Tensor:
    """Some heads of [rows, heads, …], of [heads, …], or of [rows * heads, …]."""
    if bias.dim() == 4:
        return bias[:, heads]
    return bias.unflatten(0, (-1, total))[:, heads].flatten(0, 1)


def emptied(module: Any, projection: str) -> None:
    """Let an attention, in place, answer what no heads give: nothing [batch, tokens, 0], or the
    bias of its own output projection; and no probabilities [batch, 0, tokens, tokens]."""
    module.__class__ = _empty(module.__class__, projection)


@cache
def _empty(kind: type[nn.Module], projection: str) -> type[nn.Module]:
    def forward(self: Any, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        batch, tokens = hidden_states.shape[:2]
        given = hidden_states.new_zeros(batch, tokens, 0)
        if projection:
            out = self.get_submodule(projection)
            given = (
                torch.zeros_like(hidden_states)
                if out.bias is None
                else out.bias.expand_as(hidden_states)
            )
        return given, hidden_states.new_zeros(batch, 0, tokens, tokens)

    return type(f"Empty{kind.__name__}", (kind,), {"forward": forward, "before": kind})


def filled(attention: Any) -> None:
    """Undo `emptied` and `spread_unevenly` in an attention, in place."""
    for part in attention.modules():
        before = getattr(type(part), "before", None)
        if before is not None:
            part.__class__ = before


_BIASES = ("position_bias", "alibi")
"""Arguments of an attention that hold a bias per head."""


class _Spread:
    """A cache, or none, that gives each query head its own copy of the KV head it reads; index:
    [query heads] int64."""

    def __init__(self, cache: Any, index: torch.Tensor) -> None:
        self.cache, self.index = cache, index

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *more: Any
    ) -> tuple[torch.Tensor, ...]:
        """[batch, KV heads, tokens, width] twice -> [batch, query heads, all tokens, width]
        twice."""
        if self.cache is not None:
            keys, values = self.cache.update(keys, values, layer, *more)
        return keys[:, self.index], values[:, self.index]

"""Heads taken out of an attention, in place: rows and columns of its projections, means in biases.

Mean ablation is zero ablation of a shifted model. W y + b = W (y − m) + (b + W m). With the
projection's input centred on the heads' means m and its bias raised by W m the model computes what
it did. Silencing a head's slice of (y − m) then sets the head to its mean. So masks, prefix reuse,
gate gradients and cuts serve mean ablation unchanged.

A cut can leave an attention in a shape that its own code does not expect. Then it gets a class made
on the spot: keys and values that have different numbers of readers, position biases of the heads
that are left, no head at all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, final

import torch
from torch import nn

if TYPE_CHECKING:
    from transformers.pytorch_utils import Conv1D

Projection: TypeAlias = "nn.Linear | Conv1D"
_BIASES = ("position_bias", "alibi")
"""Arguments of an attention that hold a bias per head."""


def span(heads: Sequence[int], width: int) -> torch.Tensor:
    """Indices of whole heads, [heads * width] int64: span([0, 2], 3) = 0 1 2 6 7 8."""
    starts = torch.tensor(list(heads), dtype=torch.long) * width
    return (starts[:, None] + torch.arange(width)).flatten()


def is_transposed(module: Any) -> bool:
    """Whether a projection holds its weight as [inputs, outputs], as GPT-2's Conv1D does."""
    return hasattr(module, "nf")


def input_axis(module: nn.Module) -> int:
    """Along which axis of a projection's weight its inputs lie."""
    return 0 if is_transposed(module) else 1


def keep_outputs(module: nn.Module, index: torch.Tensor) -> None:
    """Shrink a Linear (or Conv1D) to the outputs `index` [kept] int64, in place."""
    keep_entries(module, "weight", index, 1 - input_axis(module))
    if module.bias is not None:
        keep_entries(module, "bias", index)
    setattr(module, "nf" if is_transposed(module) else "out_features", len(index))


def keep_inputs(module: nn.Module, index: torch.Tensor) -> None:
    """Shrink a Linear (or Conv1D) to the inputs `index` [kept] int64, in place. The bias stays."""
    keep_entries(module, "weight", index, input_axis(module))
    setattr(module, "nx" if is_transposed(module) else "in_features", len(index))


def keep_entries(module: nn.Module, name: str, index: torch.Tensor, axis: int = 0) -> None:
    """Leave a parameter the entries `index` [kept] int64 along one axis."""
    old = getattr(module, name)
    kept = old.detach().index_select(axis, index.to(old.device)).contiguous()
    setattr(module, name, nn.Parameter(kept, requires_grad=old.requires_grad))


def set_bias(projection: Projection, bias: torch.Tensor | None, learned: bool = True) -> None:
    """Replace the bias by `bias` [hidden], or none; `learned`: as a parameter that is saved, else
    as a buffer."""
    projection._parameters.pop("bias", None)
    projection._buffers.pop("bias", None)
    if bias is None:
        projection.register_parameter("bias", None)
    elif learned:
        wanted = projection.weight.requires_grad
        projection.register_parameter("bias", nn.Parameter(bias, requires_grad=wanted))
    else:
        projection.register_buffer("bias", bias, persistent=False)


@final
class Centred(nn.Module):
    """Stands where the output projection stood; `inner` is that projection with its bias raised.

    means: [heads * head_dim], what the heads of the layer hand over on average.
    """

    means: torch.Tensor
    plain_bias: torch.Tensor | None

    def __init__(self, inner: Projection, means: torch.Tensor) -> None:
        super().__init__()
        means, bias = means.to(inner.weight), inner.bias
        plain = None if bias is None else bias.detach().clone()
        self.inner = inner
        self.register_buffer("means", means, persistent=False)
        self.register_buffer("plain_bias", plain, persistent=False)
        set_bias(inner, self._raised(means), learned=bias is not None)

    def forward(self, heads: torch.Tensor) -> torch.Tensor:
        """heads [batch, tokens, heads * head_dim] -> [batch, tokens, hidden]."""
        return self.inner(heads - self.means)

    def folded(self, dead: Sequence[int], head_dim: int) -> nn.Module:
        """The plain projection, with what the dead heads hand over on average in its bias."""
        kept = torch.zeros_like(self.means)
        places = span(dead, head_dim).to(kept.device)
        kept[places] = self.means[places]
        set_bias(self.inner, self._raised(kept) if dead else self.plain_bias)
        return self.inner

    def _raised(self, means: torch.Tensor) -> torch.Tensor:
        """The plain bias and W m, [hidden] in the weights' dtype; W m is summed in float32."""
        weight, wide = self.inner.weight.detach().float(), means.float()
        product = wide @ weight if is_transposed(self.inner) else weight @ wide
        rise = product.to(self.inner.weight.dtype)
        return rise if self.plain_bias is None else self.plain_bias + rise


@final
class NoHeads(nn.Module):
    """Attention of a layer without heads: it answers the output projection's bias, independent of
    its input.

    It still tells the key/value cache how many tokens went by (one zero per token). transformers
    reads the length of the text from layer 0's cache, and would take an empty one for the beginning
    of the text.
    """

    def __init__(self, layer: int, projection: nn.Module) -> None:
        super().__init__()
        self.layer, self.bias = layer, None
        bias: Any = projection.bias
        if bias is not None:
            kept = bias.detach().clone()
            self.bias = nn.Parameter(kept, requires_grad=bias.requires_grad)

    def forward(
        self,
        hidden_states: torch.Tensor,
        past_key_values: Any = None,
        layer_past: Any = None,
        **ignored: Any,
    ) -> tuple[torch.Tensor, None]:
        """hidden_states [batch, tokens, hidden] -> the same shape, the bias everywhere; and None
        for probabilities."""
        cache = past_key_values if past_key_values is not None else layer_past
        if cache is not None:
            mark = hidden_states.new_zeros(hidden_states.shape[0], 1, hidden_states.shape[1], 1)
            cache.update(mark, mark, self.layer)
        out = torch.zeros_like(hidden_states)
        return (out if self.bias is None else out + self.bias), None


def by_gate(row: torch.Tensor, width: int) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A pre-hook that multiplies every head's share of a projection's input by its gate, [heads] or
    [batch, heads]."""

    def scale(module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        inside = args[0]  # [batch, tokens, heads * width]
        factor = row.to(device=inside.device, dtype=inside.dtype).repeat_interleave(width, dim=-1)
        return (inside * (factor if factor.dim() == 1 else factor[:, None]), *args[1:])

    return scale


@contextmanager
def answers(module: nn.Module, given: Any) -> Iterator[None]:
    """Within it, a module answers `given`, independent of its input."""
    module.forward = lambda *args, **kwargs: given
    try:
        yield
    finally:
        del module.forward


def spread_unevenly(attention: Any, reads: list[int]) -> None:
    """Tell an attention, in place, which key/value head each query head reads. reads: ascending, no
    gap.

    Worked example, 4 query heads on 2 key/value heads (0, 1 -> 0; 2, 3 -> 1).
        cut 2, 3    head 1 of keys and values has no reader left and goes too: still 2 readers each.
        cut 3       it is still read by head 2 and stays: 3 query heads read 0, 0, 1. So the cache
                    that the attention hands its keys and values to hands them out by index
    """
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
        spread = _Spread(kwargs.get(name), self.kv_of_head)
        return kind.forward(self, *args, **{**kwargs, name: spread})

    return type(f"Uneven{kind.__name__}", (kind,), {"forward": forward})


@final
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


def takes_biases(part: nn.Module) -> bool:
    """Whether a module is given position biases of all heads."""
    return any(name in inspect.signature(type(part).forward).parameters for name in _BIASES)


def bias_by_head(attention: Any, heads: list[int], total: int) -> None:
    """Let the parts of an attention that take position biases of `total` heads use those of `heads`
    alone, in place."""
    taking = [part for part in attention.modules() if takes_biases(part)]
    for part in taking:
        if not any(inner in taking for inner in part.children()):  # who hands it on takes it too
            index = torch.tensor(heads, device=next(part.parameters()).device)
            part.register_buffer("bias_of_head", index, persistent=False)
            part.__class__ = _biased(part.__class__, total)


@cache
def _biased(kind: type[nn.Module], total: int) -> type[nn.Module]:
    names = list(inspect.signature(kind.forward).parameters)[1:]

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        for name in _BIASES:
            if given.get(name) is not None:
                # Some heads of [rows, heads, …], of [heads, …], or of [rows *
                # heads, …].
                bias = given[name]
                given[name] = (
                    bias[:, self.bias_of_head]
                    if bias.dim() == 4
                    else bias.unflatten(0, (-1, total))[:, self.bias_of_head].flatten(0, 1)
                )
        mask = given.get("attention_mask")
        # Falcon's mask holds the biases.
        if mask is not None and mask.dim() == 4 and mask.shape[1] == total > 1:
            given["attention_mask"] = mask[:, self.bias_of_head]
        return kind.forward(self, **given)

    return type(f"Biased{kind.__name__}", (kind,), {"forward": forward})


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
            bias, given = self.get_submodule(projection).bias, torch.zeros_like(hidden_states)
            given = given if bias is None else bias.expand_as(given)
        return given, hidden_states.new_zeros(batch, 0, tokens, tokens)

    return type(f"Empty{kind.__name__}", (kind,), {"forward": forward})

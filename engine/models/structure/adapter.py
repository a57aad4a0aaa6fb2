"""Adapters made from a Layout: the same questions as those of a family's file, answered from names
and numbers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, final

import torch
from torch import nn

from engine.core.errors import Fault
from engine.core.types import HeadMask
from engine.models.adapters.base import (
    Adapter,
    NoHeads,
    keep_inputs,
    keep_outputs,
    set_entries,
    span,
    spread_inputs,
    spread_outputs,
)
from engine.models.adapters.encoder import Encoder
from engine.models.structure.layout import Layout
from engine.models.structure.uneven import bias_by_head, emptied, filled, spread_unevenly

_COUNTS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "num_attn_heads")
_GROUPS = ("num_key_value_heads", "num_kv_heads")
_BARE = (nn.Linear, nn.Dropout, nn.Identity)
"""Parts of an attention that does nothing but attend: no residual, no norm."""
_WIDTHS = ("all_head_size", "split_size", "embed_dim")


class _Read(Adapter):
    """What decoders and encoders share."""

    layout: Layout

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.model_types = (layout.model_type,)
        self.projection = layout.projection
        self.cuts, self.how, self.shared = not layout.whole, layout.said(), layout.depth > 0

    def zeroing(self, why: str) -> Any:
        """The same, but heads are zeroed and not cut out."""
        return type(self)(replace(self.layout, whole=why))

    def as_saved(self, shapes: Mapping[str, Sequence[int]], mask: HeadMask) -> Any:
        for layer in {layer for layer, _ in mask.cut}:
            name = f"{self.layout.blocks[layer]}.{self.layout.attention}.{self.projection}.weight"
            inputs = shapes.get(name, (0, 0))[0 if self.layout.transposed else 1]
            if self.cuts and inputs == self.layout.heads * self.layout.width:
                return self.zeroing("it was exported so")
        return self

    def n_layers(self, model: Any) -> int:
        return len(self.layout.blocks)

    def n_heads(self, model: Any) -> int:
        return self.layout.heads

    def n_positions(self, model: Any) -> int:
        return self.layout.positions

    def head_dim(self, model: Any) -> int:
        return self.layout.width

    def config_faults(self, config: Any) -> list[Fault]:
        return []  # reading the layout refuses what does not add up

    def attention(self, model: nn.Module, layer: int) -> nn.Module:
        return model.get_submodule(self.layout.blocks[layer]).get_submodule(self.layout.attention)

    def head_tensors(self, model: nn.Module, layer: int, head: int) -> list[torch.Tensor]:
        """As in `Adapter.head_tensors`, as far as it is known which outputs belong to the head; and
        sinks."""
        attention, width = self.attention(model, layer), self.layout.width
        found = []
        for read in self.layout.reads:
            rows, module = self.layout.rows(read, head), attention.get_submodule(read.name)
            if len(rows):
                found += _taken(module, rows)
        output = self.output_projection(model, layer).weight
        transposed = hasattr(self.output_projection(model, layer), "nf")
        mine = slice(head * width, (head + 1) * width)
        return [*found, output[mine] if transposed else output[:, mine]]

    def _keep(self, attention: nn.Module, heads: list[int], head_dim: int) -> None:
        layout, living = self.layout, self.layout.living(heads)
        for read in layout.reads:
            keep_outputs(attention.get_submodule(read.name), layout.kept(read, heads))
        keep_inputs(attention.get_submodule(self.projection), span(heads, head_dim))
        _keep_own(attention, layout, heads)
        _count(attention, (layout.heads, layout.groups), (len(heads), len(living)), head_dim)
        if layout.groups < layout.heads and heads:
            spread_unevenly(
                attention, [living.index(head // (layout.heads // layout.groups)) for head in heads]
            )
        if layout.biased and heads:
            bias_by_head(attention, heads, layout.heads)


def _taken(module: Any, rows: torch.Tensor) -> list[torch.Tensor]:
    """Weights and biases of some outputs of a projection: views where the outputs are one block."""
    place = (
        slice(int(rows[0]), int(rows[-1]) + 1) if int(rows[-1] - rows[0]) + 1 == len(rows) else rows
    )
    weight = module.weight[:, place] if hasattr(module, "nf") else module.weight[place]
    return [weight] if module.bias is None else [weight, module.bias[place]]


def _own(attention: nn.Module, layout: Layout) -> Iterator[tuple[nn.Module, str, int]]:
    """Parameters of the attention itself that have a share per head, and its size in the whole
    model: sinks, biases that stand apart from their projection."""
    for part in attention.modules():
        if (
            isinstance(part, nn.Linear | nn.LayerNorm)
            or hasattr(part, "nf")
            or "norm" in type(part).__name__.lower()
        ):
            continue
        for name in list(part._parameters):
            if name in layout.per_head:
                yield part, name, 1
            elif name in layout.biases:
                yield part, name, layout.width


def _keep_own(attention: nn.Module, layout: Layout, heads: list[int]) -> None:
    for part, name, step in _own(attention, layout):
        own = getattr(part, name)
        kept = own.detach().index_select(0, span(heads, step).to(own.device))
        setattr(part, name, nn.Parameter(kept, requires_grad=own.requires_grad))


def _count(attention: nn.Module, before: tuple[int, int], now: tuple[int, int], width: int) -> None:
    """Tell an attention how many heads and key/value heads it has now."""
    for part in attention.modules():
        for names, old, new in (
            (_COUNTS, before[0], now[0]),
            (_GROUPS, before[1], now[1]),
            (_WIDTHS, before[0] * width, now[0] * width),
        ):
            for name in names:
                if part.__dict__.get(name) == old:
                    setattr(part, name, new)


@final
class StructuralDecoder(_Read):
    """A language model read by its structure."""

    def attention_implementation(self, config: Any) -> str:
        return "sdpa" if self.layout.fast else "eager"

    def backbone(self, model: Any) -> nn.Module:
        # Llama 4's text model is its own base model: its prefix names a part of the whole with
        # pictures.
        return (
            model.get_submodule(self.layout.holder)
            if model.base_model is model
            else model.base_model
        )

    def blocks(self, model: Any) -> nn.ModuleList:
        return model.get_submodule(self.layout.blocks[0].rpartition(".")[0])

    def final_norm(self, model: nn.Module) -> nn.Module:
        return nn.Sequential(*(model.get_submodule(name) for name in self.layout.after))

    def stand_in(self, model: nn.Module, layer: int, given: torch.Tensor) -> tuple[nn.Module, Any]:
        # What attention adds to its projection's output (BLOOM: the residual) is not known; the
        # projection's is.
        return self.output_projection(model, layer), given

    def logits(self, model: Any, hidden: torch.Tensor, normed: bool = False) -> torch.Tensor:
        """By the model's own code behind its last norm: soft caps and scales of logits come with
        it."""
        hidden = hidden if normed else self.final_norm(model)(hidden)
        ids = torch.zeros((1, 1), dtype=torch.long, device=hidden.device)
        with _gives(model.get_submodule(self.layout.holder), hidden[None]):
            return model(input_ids=ids, use_cache=False).logits[0]

    def _empty(self, model: nn.Module, layer: int) -> None:
        block = model.get_submodule(self.layout.blocks[layer])
        block.set_submodule(
            self.layout.attention, NoHeads(layer, self.output_projection(model, layer))
        )


@contextmanager
def _gives(base: nn.Module, hidden: torch.Tensor) -> Iterator[None]:
    """Within it, all that lies below the language model's head answers `hidden` [1, tokens,
    width]."""
    base.forward = lambda *args, **kwargs: _Handed(hidden)
    try:
        yield
    finally:
        del base.forward


class _Handed:
    """The output of a base model that has nothing but hidden states."""

    def __init__(self, hidden: torch.Tensor) -> None:
        self.last_hidden_state = hidden

    def __getattr__(self, name: str) -> None:
        return None

    def __getitem__(self, at: Any) -> Any:
        return self.last_hidden_state if at == 0 else () if isinstance(at, slice) else None


@final
class StructuralEncoder(_Read, Encoder):
    """A text classifier read by its structure: an encoder, or a decoder with a classification
    head."""

    def __init__(self, layout: Layout, model: Any) -> None:
        super().__init__(layout)
        self.reads = tuple(read.name for read in layout.reads)
        self.base = model.base_model_prefix
        head = [
            name
            for name, part in model.named_children()
            if name != self.base and list(part.parameters())
        ]
        self.head = tuple(head)
        self.outputs = [
            name
            for name, part in model.named_modules()
            if name.split(".")[0] in head and isinstance(part, nn.Linear)
        ][-1]
        self.pooler = tuple(
            f"{self.base}.{name}"
            for name, _ in model.base_model.named_children()
            if name == "pooler"
        )
        self.weigher = _weigher(layout)
        taken = inspect.signature(type(model).forward).parameters
        types = (
            "token_type_ids" in taken and int(getattr(model.config, "type_vocab_size", 0) or 0) > 1
        )
        self.names = ("input_ids", "attention_mask", *(("token_type_ids",) if types else ()))
        self._made_from = (head, self.outputs)

    def zeroing(self, why: str) -> Any:
        made = object.__new__(type(self))
        made.__dict__ |= self.__dict__
        _Read.__init__(made, replace(self.layout, whole=why))
        return made

    def input_names(self, config: Any) -> tuple[str, ...]:
        return self.names

    def blocks(self, model: nn.Module) -> nn.ModuleList:
        return nn.ModuleList([model.get_submodule(name) for name in self.layout.blocks])

    def grow_heads(self, model: nn.Module, mask: HeadMask) -> None:
        layout, width = self.layout, self.layout.width
        if not self.cuts:
            return
        for layer in sorted({layer for layer, _ in mask.cut}):
            attention, dead = self.attention(model, layer), mask.cut_in(layer)
            heads = [head for head in range(mask.n_heads) if head not in dead]
            filled(attention)
            for read in layout.reads:
                spread_outputs(
                    attention.get_submodule(read.name), layout.kept(read, heads), read.outputs
                )
            spread_inputs(
                attention.get_submodule(self.projection), span(heads, width), mask.n_heads * width
            )
            for part, name, step in _own(attention, layout):
                set_entries(part, name, span(heads, step), mask.n_heads * step)
            now = (len(heads), len(layout.living(heads)))
            _count(attention, now, (layout.heads, layout.groups), width)
            spread_unevenly(
                attention, [head // (layout.heads // layout.groups) for head in range(layout.heads)]
            )

    def _empty(self, model: nn.Module, layer: int) -> None:
        attention = self.attention(model, layer)
        self._keep(attention, [], self.layout.width)
        weigher = attention.get_submodule(self.weigher)
        if not self.projection.startswith(f"{self.weigher}.") and self.weigher:
            emptied(weigher, "")
        elif all(isinstance(part, _BARE) or hasattr(part, "nf") for part in weigher.children()):
            emptied(weigher, self.projection.removeprefix(f"{self.weigher}."))


def _weigher(layout: Layout) -> str:
    """The module in the attention that holds all projections but the output's: it weighs tokens."""
    places = {read.name.rpartition(".")[0] for read in layout.reads}
    return min(places, key=len)

"""Encoders that read a whole text at once: laid out as BERT is, cut like any other, the
classifier's head on top.

A layer that lost all heads keeps its attention module with zero heads: the output projection has no
inputs left and hands over its bias, the residual path and the LayerNorm stay, and its attention
probabilities are [batch, 0, t, t]. There is no key/value cache that would need `NoHeads`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, final

import torch
from torch import nn

from engine.core.errors import Fault
from engine.core.types import HeadMask
from engine.models.adapters.base import (
    Adapter,
    keep_inputs,
    keep_outputs,
    linear_head_tensors,
    span,
    spread_inputs,
    spread_outputs,
)


class Encoder(Adapter):
    """BERT's layout; a family that names its parts otherwise says so. Loaded with eager attention
    only."""

    causal = False
    projection = "output.dense"
    reads: tuple[str, ...] = ("self.query", "self.key", "self.value")
    """Names of the q, k and v Linears in the attention module."""
    weigher: str = "self"
    """Name of the module in the attention module that weighs tokens; "" for the attention module
    itself."""
    head: tuple[str, ...] = ("classifier",)
    """Names of the modules that make up the classification head."""
    outputs: str = "classifier"
    """The Linear that gives one number per class."""
    pooler: tuple[str, ...] = ()
    """Name of the pooler, where the family has one: masked-language-model checkpoints come without.
    """

    def attention_implementation(self, config: Any) -> str:
        return "eager"  # the only one that hands out attention probabilities

    @abstractmethod
    def input_names(self, config: Any) -> tuple[str, ...]:
        """What the model takes of what a tokenizer gives."""

    def config_faults(self, config: Any) -> list[Fault]:
        faults = super().config_faults(config)
        if getattr(config, "is_decoder", False) or getattr(config, "add_cross_attention", False):
            what = "describes a decoder: its tokens do not see the whole text."
            faults.append(Fault("config.json", what, "Use an encoder."))
        kind = getattr(config, "position_embedding_type", None) or "absolute"
        if kind != "absolute":
            fix = "Use a checkpoint with absolute positions."
            faults.append(
                Fault(
                    "config.json",
                    f"has {kind} positions, which transformers no longer computes.",
                    fix,
                )
            )
        if self.n_positions(config) < 1:
            faults.append(
                Fault("config.json", "leaves no position for a token.", "Fix config.json.")
            )
        return faults

    def blocks(self, model: Any) -> nn.ModuleList:
        return model.base_model.encoder.layer

    def attention(self, model: nn.Module, layer: int) -> Any:
        return self.blocks(model)[layer].attention

    @final
    def attention_probabilities(self, model: nn.Module, layer: int) -> nn.Module:
        """The module that returns (output, attention probabilities [batch, heads, tokens, tokens]).

        Heads are those that are left. The probabilities are the very tensor that is multiplied by
        the values, so gradients flow to it; `model(..., output_attentions=True).attentions` hands
        out the same ones, layer by layer.
        """
        attention = self.attention(model, layer)
        return attention.get_submodule(self.weigher)

    @final
    def embeddings(self, model: Any) -> nn.Module:
        """The word embeddings: token ids [batch, tokens] -> [batch, tokens, hidden]."""
        return model.get_input_embeddings()

    @final
    def classifier_names(self, model: nn.Module) -> tuple[str, ...]:
        """How names of the classification head's parameters begin: the modules it is made of, the
        last layer last."""
        return self.head

    def head_tensors(self, model: nn.Module, layer: int, head: int) -> list[torch.Tensor]:
        """As in `Adapter.head_tensors`: [head_dim, hidden] and [head_dim] of q, k and v, [hidden,
        head_dim] of o."""
        attention, width = self.attention(model, layer), self.head_dim(model)
        place = slice(head * width, (head + 1) * width)
        reads = [attention.get_submodule(name) for name in self.reads]
        return linear_head_tensors(reads, self.output_projection(model, layer), (place,) * 4)

    def grow_heads(self, model: nn.Module, mask: HeadMask) -> None:
        """Undo `cut_heads` in place, as far as shapes go: zeros stand where the mask's heads
        were."""
        width = self.head_dim(model)
        for layer in sorted({layer for layer, _ in mask.cut}):
            attention, dead = self.attention(model, layer), mask.cut_in(layer)
            index = span([head for head in range(mask.n_heads) if head not in dead], width)
            for name in self.reads:
                spread_outputs(attention.get_submodule(name), index, mask.n_heads * width)
            spread_inputs(attention.get_submodule(self.projection), index, mask.n_heads * width)
            self._count(attention, mask.n_heads, width)

    def _keep(self, attention: nn.Module, heads: list[int], head_dim: int) -> None:
        index = span(heads, head_dim)
        for name in self.reads:
            keep_outputs(attention.get_submodule(name), index)
        keep_inputs(attention.get_submodule(self.projection), index)
        self._count(attention, len(heads), head_dim)

    def _count(self, attention: Any, heads: int, head_dim: int) -> None:
        """Tell the attention module how many heads it has now."""
        attention.self.num_attention_heads = heads
        attention.self.all_head_size = heads * head_dim

    def _empty(self, model: nn.Module, layer: int) -> None:
        self._keep(self.attention(model, layer), [], self.head_dim(model))

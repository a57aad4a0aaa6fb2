"""GPT-J: separate q, k, v Linears without bias, rotary positions on the first `rotary_dim` numbers
of each head."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import nn

from engine.models.adapters.base import (
    Adapter,
    NoHeads,
    keep_inputs,
    keep_outputs,
    linear_head_tensors,
    span,
)


@final
class GPTJ(Adapter):
    model_types = ("gptj",)
    projection = "out_proj"

    def attention_implementation(self, config: Any) -> str:
        return "eager"  # the only one transformers has for it besides flash attention

    def attention(self, model: Any, layer: int) -> Any:
        return model.transformer.h[layer].attn

    def head_tensors(self, model: nn.Module, layer: int, head: int) -> list[torch.Tensor]:
        """As in `Adapter.head_tensors`: [head_dim, hidden] of q, k, v, without biases, and [hidden,
        head_dim] of o."""
        attention, width = self.attention(model, layer), self.head_dim(model)
        place = slice(head * width, (head + 1) * width)
        return linear_head_tensors(
            (attention.q_proj, attention.k_proj, attention.v_proj),
            self.output_projection(model, layer),
            (place,) * 4,
        )

    def _keep(self, attention: Any, heads: list[int], head_dim: int) -> None:
        index = span(heads, head_dim)
        for module in (attention.q_proj, attention.k_proj, attention.v_proj):
            keep_outputs(module, index)
        keep_inputs(attention.out_proj, index)
        attention.num_attention_heads = len(heads)
        attention.embed_dim = len(index)

    def _empty(self, model: Any, layer: int) -> None:
        model.transformer.h[layer].attn = NoHeads(layer, self.output_projection(model, layer))

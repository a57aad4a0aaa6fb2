"""GPT-2 and DistilGPT-2: q, k and v in one Conv1D (`c_attn`, weight [hidden, 3 * hidden]), output
`c_proj`."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import nn

from engine.models.adapters.base import Adapter, NoHeads, keep_inputs, keep_outputs, span


@final
class GPT2(Adapter):
    model_types = ("gpt2",)
    projection = "c_proj"

    def attention_implementation(self, config: Any) -> str:
        # Upcasting inside attention exists only in the eager path.
        return "eager" if getattr(config, "reorder_and_upcast_attn", False) else "sdpa"

    def attention(self, model: Any, layer: int) -> Any:
        return model.transformer.h[layer].attn

    def head_tensors(self, model: nn.Module, layer: int, head: int) -> list[torch.Tensor]:
        """As in `Adapter.head_tensors`, transposed: [hidden, head_dim] of q, k and v, [head_dim,
        hidden] of o."""
        attention, width = self.attention(model, layer), self.head_dim(model)
        places = [part * attention.split_size + head * width for part in range(3)]
        weights = [attention.c_attn.weight[:, place : place + width] for place in places]
        biases = [attention.c_attn.bias[place : place + width] for place in places]
        return [
            *weights,
            *biases,
            self.output_projection(model, layer).weight[head * width : (head + 1) * width],
        ]

    def _keep(self, attention: Any, heads: list[int], head_dim: int) -> None:
        parts = [span(heads, head_dim, part * attention.split_size) for part in range(3)]
        keep_outputs(attention.c_attn, torch.cat(parts))
        keep_inputs(attention.c_proj, span(heads, head_dim))
        attention.split_size = attention.embed_dim = len(heads) * head_dim
        attention.num_heads = len(heads)

    def _empty(self, model: Any, layer: int) -> None:
        model.transformer.h[layer].attn = NoHeads(layer, self.output_projection(model, layer))

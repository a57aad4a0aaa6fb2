"""Llama: query heads are the units; several may share one key/value head (grouped KV).

Worked example, 4 query heads on 2 KV heads (0, 1 -> KV 0; 2, 3 -> KV 1):
    cut 2, 3      KV 1 has no reader left and goes too: 2 query heads on 1 KV head, still 2 per group
    cut 3         KV 1 is still read by head 2 and stays: 3 query heads reading KV 0, 0, 1: uneven, so keys and values
                  are handed out by index (the cache keeps one copy per living KV head)
"""

from __future__ import annotations

from typing import Any, final

import torch
from torch import nn
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
)  # isort: skip  (after the torchvision guard)

from engine.core.errors import Fault
from engine.models.adapters.base import (
    Adapter,
    NoHeads,
    keep_inputs,
    keep_outputs,
    linear_head_tensors,
    span,
)


@final
class Llama(Adapter):
    model_types = ("llama",)
    projection = "o_proj"

    def head_dim(self, model: Any) -> int:
        config = getattr(model, "config", model)
        return int(
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )

    def config_faults(self, config: Any) -> list[Fault]:
        heads, groups = self.n_heads(config), int(config.num_key_value_heads)
        faults = [] if getattr(config, "head_dim", None) else super().config_faults(config)
        if groups < 1 or heads % groups:
            what = f"{heads} query heads do not divide over {groups} key/value heads."
            faults.append(Fault("config.json", what, "Fix config.json."))
        return faults

    def attention(self, model: Any, layer: int) -> Any:
        return model.model.layers[layer].self_attn

    def blocks(self, model: Any) -> nn.ModuleList:
        return model.base_model.layers

    def final_norm(self, model: Any) -> nn.Module:
        return model.base_model.norm

    def head_tensors(self, model: nn.Module, layer: int, head: int) -> list[torch.Tensor]:
        """As in `Adapter.head_tensors`: [head_dim, hidden] of q and the shared k and v, [hidden,
        head_dim] of o."""
        attention, width = self.attention(model, layer), self.head_dim(model)
        mine = slice(head * width, (head + 1) * width)
        shared_head = head // attention.num_key_value_groups
        shared = slice(shared_head * width, (shared_head + 1) * width)
        modules = (attention.q_proj, attention.k_proj, attention.v_proj)
        return linear_head_tensors(
            modules, self.output_projection(model, layer), (mine, shared, shared, mine)
        )

    def _keep(self, attention: Any, heads: list[int], head_dim: int) -> None:
        reads = [head // attention.num_key_value_groups for head in heads]
        living = sorted(set(reads))
        keep_outputs(attention.q_proj, span(heads, head_dim))
        keep_outputs(attention.k_proj, span(living, head_dim))
        keep_outputs(attention.v_proj, span(living, head_dim))
        keep_inputs(attention.o_proj, span(heads, head_dim))
        readers = {reads.count(group) for group in living}
        if len(readers) == 1:
            attention.num_key_value_groups = readers.pop()
            return
        index = torch.tensor(
            [living.index(group) for group in reads], device=attention.q_proj.weight.device
        )
        attention.register_buffer("kv_of_head", index, persistent=False)
        attention.num_key_value_groups = 1
        attention.__class__ = UnevenLlamaAttention

    def _empty(self, model: Any, layer: int) -> None:
        model.model.layers[layer].self_attn = NoHeads(layer, self.output_projection(model, layer))


@final
class UnevenLlamaAttention(LlamaAttention):
    """Llama's attention where living KV heads have different numbers of readers. `kv_of_head`:
    [query heads] int64."""

    kv_of_head: torch.Tensor

    def forward(
        self,
        hidden_states: torch.Tensor,
        position_embeddings: Any = None,
        attention_mask: torch.Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """hidden_states [batch, tokens, hidden] -> the same shape, and attention probabilities, or
        None with sdpa.

        LlamaAttention asks `past_key_values` for all keys and values: that is the place to hand
        them out by `kv_of_head`.
        """
        spread: Any = _Spread(past_key_values, self.kv_of_head)
        return super().forward(hidden_states, position_embeddings, attention_mask, spread, **kwargs)


@final
class _Spread:
    """A cache, or none, that gives each query head its own copy of the KV head it reads; index:
    [query heads] int64."""

    def __init__(self, cache: Any, index: torch.Tensor) -> None:
        self.cache, self.index = cache, index

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """[batch, KV heads, tokens, width] twice -> [batch, query heads, all tokens, width]
        twice."""
        if self.cache is not None:
            keys, values = self.cache.update(keys, values, layer)
        return keys[:, self.index], values[:, self.index]

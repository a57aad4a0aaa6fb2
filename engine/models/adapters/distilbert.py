"""DistilBERT: BERT without token types and pooler; the output projection lies inside the attention
module."""

from __future__ import annotations

from typing import Any, final

from torch import nn

from engine.models.adapters.encoder import Encoder


@final
class DistilBert(Encoder):
    model_types = ("distilbert",)
    projection = "out_lin"
    reads = ("q_lin", "k_lin", "v_lin")
    weigher = ""
    head = ("pre_classifier", "classifier")

    def blocks(self, model: Any) -> nn.ModuleList:
        return model.base_model.transformer.layer

    def _count(self, attention: Any, heads: int, head_dim: int) -> None:
        attention.n_heads = heads
        attention.dim = heads * head_dim

    def input_names(self, config: Any) -> tuple[str, ...]:
        return ("input_ids", "attention_mask")

"""RoBERTa, XLM-RoBERTa and CamemBERT: BERT's layers, positions that begin behind the padding
token's id."""

from __future__ import annotations

from typing import Any, final

from engine.models.adapters.encoder import Encoder


@final
class Roberta(Encoder):
    model_types = ("roberta", "xlm-roberta", "camembert")
    outputs = "classifier.out_proj"

    def n_positions(self, model: Any) -> int:
        """Position p of a text is number padding id + 1 + p of the position embeddings."""
        config = getattr(model, "config", model)
        return int(config.max_position_embeddings) - int(config.pad_token_id) - 1

    def input_names(self, config: Any) -> tuple[str, ...]:
        return ("input_ids", "attention_mask")

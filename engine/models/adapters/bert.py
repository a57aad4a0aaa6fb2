"""BERT, MiniLM and others of its layout: separate q, k, v Linears, a pooler, two token types."""

from __future__ import annotations

from typing import Any, final

from engine.models.adapters.encoder import Encoder


@final
class Bert(Encoder):
    model_types = ("bert",)
    pooler = ("bert.pooler",)

    def input_names(self, config: Any) -> tuple[str, ...]:
        types = ("token_type_ids",) if int(config.type_vocab_size) > 1 else ()
        return ("input_ids", "attention_mask", *types)

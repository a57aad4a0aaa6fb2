"""What a cut saves: parameters, bytes, and latency measured beside the full model in the same
minute."""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch

from engine.audit.measurements import latency_row, paired_latency
from engine.classifiers.audit import EachAlone
from engine.models.load_text_classifier import TextClassifier
from engine.surgery.agreement import agree_on_texts
from engine.surgery.heads.mask import cut
from engine.tracks.text_classifiers.context import TEST, TextContext, TextShard

REPEATS = 15
BATCH = 8
"""Texts per timed pass."""


class TextCost(EachAlone):
    """One row: parameters, bytes, latency as latency.latency_row has it, and whether masked and cut
    agree. `off` heads are cut for real first."""

    name = "text_cost"
    version = 2
    any_threads = True
    pace = 2.5

    def parts(self, context: TextContext, shard: TextShard) -> dict[str, Any]:
        return {"repeats": REPEATS, "batch": BATCH, "threads": torch.get_num_threads()}

    def needs(self, context: TextContext, shard: TextShard) -> list[TextShard]:
        return list(
            dict.fromkeys(
                [context.dense_shard(shard.trial), context.tuned_shard(shard.trained, shard.trial)]
            )
        )

    def table(self, context: TextContext, shard: TextShard) -> pd.DataFrame:
        dense, small = context.model_of(context.dense_shard(shard.trial)), context.model_of(shard)
        if shard.off:
            small = cut(small, context.mask(shard.off))
        texts, second = context.pairs(context.table(TEST).head(BATCH))
        batch = dense.encode(texts, second)
        own, whole = paired_latency(
            lambda: small.logits(batch),
            lambda: dense.logits(batch),
            REPEATS,
            dense.device,
            context.hooks.check,
        )
        row = {"parameters": small.n_parameters, "bytes": _bytes(small), **latency_row(own, whole)}
        return pd.DataFrame([row | _agreement(context, shard, small)])

    def size(self, context: TextContext, shard: TextShard) -> float:
        return 2.0 * REPEATS * BATCH


def _bytes(classifier: TextClassifier) -> int:
    return sum(value.numel() * value.element_size() for value in classifier.model.parameters())


def _agreement(
    context: TextContext, shard: TextShard, small: TextClassifier
) -> dict[str, float | bool]:
    """How far the cut model is from the masked one. One that was trained after its cut was compared
    before that."""
    if not shard.off:
        plain = context.without_weights(context.tuned_shard(shard.trained, shard.trial))[1]
        return {"max_logit_difference": plain["max_logit_difference"], "agrees": True}
    texts, second = context.pairs(context.table(TEST).head(BATCH))
    found = agree_on_texts(context.model_of(shard), context.mask(shard.off), texts, second, small)
    return {"max_logit_difference": found.max_logit_difference, "agrees": found.holds}

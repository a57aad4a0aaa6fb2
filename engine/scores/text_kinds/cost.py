"""What a cut saves: parameters, bytes, and latency measured beside the full model in the same minute."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd
import torch

from engine.metrics.latency import latency_row, paired_latency
from engine.metrics.text_bench import TEST, TextBench, TextShard
from engine.metrics.workbench import Kind
from engine.models.load_text_classifier import TextClassifier
from engine.surgery.agree import agree_on_texts
from engine.surgery.cut import cut

REPEATS = 15
BATCH = 8
"""Texts per timed pass."""


class TextCost(Kind):
    """One row: parameters, bytes, latency as latency.latency_row has it, and whether masked and cut agree. `off` heads
    are cut for real first."""

    name = "text_cost"
    version = 2

    def parts(self, bench: TextBench, shard: TextShard) -> dict[str, Any]:
        return {"repeats": REPEATS, "batch": BATCH, "threads": torch.get_num_threads()}

    def together(self, bench: TextBench, shard: TextShard) -> Hashable:
        return shard

    def needs(self, bench: TextBench, shard: TextShard) -> list[TextShard]:
        return list(dict.fromkeys([bench.dense_shard(shard.trial), bench.tuned_shard(shard.trained, shard.trial)]))

    def compute(self, bench: TextBench, shards: Sequence[TextShard]) -> list[pd.DataFrame]:
        return [self._one(bench, shard) for shard in shards]

    def _one(self, bench: TextBench, shard: TextShard) -> pd.DataFrame:
        dense, small = bench.model_of(bench.dense_shard(shard.trial)), bench.model_of(shard)
        if shard.off:
            small = cut(small, bench.mask(shard.off))
        texts, second = bench.pairs(bench.table(TEST).head(BATCH))
        batch = dense.encode(texts, second)
        own, whole = paired_latency(
            lambda: small.logits(batch), lambda: dense.logits(batch), REPEATS, dense.device, bench.hooks.check
        )
        row = {"parameters": small.n_parameters, "bytes": _bytes(small), **latency_row(own, whole)}
        return pd.DataFrame([row | _agreement(bench, shard, small)])

    def size(self, bench: TextBench, shard: TextShard) -> float:
        return 2.0 * REPEATS * BATCH


def _bytes(classifier: TextClassifier) -> int:
    return sum(value.numel() * value.element_size() for value in classifier.model.parameters())


def _agreement(bench: TextBench, shard: TextShard, small: TextClassifier) -> dict[str, float | bool]:
    """How far the cut model is from the masked one. One that was trained after its cut was compared before that."""
    if not shard.off:
        plain = bench.without_weights(bench.tuned_shard(shard.trained, shard.trial))[1]
        return {"max_logit_difference": plain["max_logit_difference"], "agrees": True}
    texts, second = bench.pairs(bench.table(TEST).head(BATCH))
    found = agree_on_texts(bench.model_of(shard), bench.mask(shard.off), texts, second, small)
    return {"max_logit_difference": found.max_logit_difference, "agrees": found.holds}

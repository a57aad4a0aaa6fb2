"""What a fine-tuned model answers with heads masked and nothing trained again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from engine.metrics.packed import pack
from engine.metrics.text_bench import TEST, TextBench, TextShard
from engine.metrics.workbench import Kind
from engine.scores.text_kinds._work import answers_of
from engine.surgery.mask import masked


class Silenced(Kind):
    """Packed: probabilities [test texts, classes]."""

    name = "silenced"

    def parts(self, bench: TextBench, shard: TextShard) -> dict[str, Any]:
        return {}

    def together(self, bench: TextBench, shard: TextShard) -> Hashable:
        return shard.trained, shard.trial  # one model for all its masks

    def needs(self, bench: TextBench, shard: TextShard) -> list[TextShard]:
        return [bench.tuned_shard(shard.trained, shard.trial)]

    def compute(self, bench: TextBench, shards: Sequence[TextShard]) -> list[pd.DataFrame]:
        found = []
        for shard in shards:
            classifier = bench.model_of(shard)
            with masked(classifier, bench.mask(shard.off)):
                found.append(pack({"probabilities": answers_of(bench, classifier)}, {}))
        return found

    def size(self, bench: TextBench, shard: TextShard) -> float:
        return float(len(bench.texts.rows(TEST)))

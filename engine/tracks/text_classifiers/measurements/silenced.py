"""What a fine-tuned model answers with heads masked and nothing trained again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from engine.audit.measurements import Measurement
from engine.store.tables import pack
from engine.surgery.heads.mask import masked
from engine.tracks.text_classifiers.context import TEST, TextContext, TextShard
from engine.tracks.text_classifiers.measurements._work import answers_of


class Silenced(Measurement):
    """Array table: probabilities [test texts, classes]."""

    name = "silenced"
    any_threads = True

    def parts(self, context: TextContext, shard: TextShard) -> dict[str, Any]:
        return {}

    def together(self, context: TextContext, shard: TextShard) -> Hashable:
        return shard.trained, shard.trial  # one model for all its masks

    def needs(self, context: TextContext, shard: TextShard) -> list[TextShard]:
        return [context.tuned_shard(shard.trained, shard.trial)]

    def compute(self, context: TextContext, shards: Sequence[TextShard]) -> list[pd.DataFrame]:
        found = []
        for shard in shards:
            classifier = context.model_of(shard)
            with masked(classifier, context.mask(shard.off)):
                found.append(pack({"probabilities": answers_of(context, classifier)}, {}))
        return found

    def size(self, context: TextContext, shard: TextShard) -> float:
        return float(len(context.texts.rows(TEST)))

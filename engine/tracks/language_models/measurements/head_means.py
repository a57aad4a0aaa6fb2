"""What each head hands over on average on a split of the corpus, for mean ablation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.surgery.heads.mean_ablation import head_means, means_table
from engine.tracks.language_models.context import Measurement, PromptContext, Shard
from engine.tracks.language_models.perplexity import spans_of


class HeadMeans(Measurement):
    """Columns: unit, then one per number of a head's output. Over the positions from which a token
    is scored."""

    name = "head_means"
    version = 2
    any_threads = True

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        return context.kind("windows").parts(context, shard)

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        return [self._one(context, shard.split) for shard in shards]

    def _one(self, context: PromptContext, split: str) -> pd.DataFrame:
        tokens, lm = context.tokens[split], context.lm
        spans = spans_of(len(tokens), context.settings.window, lm.n_positions)
        windows = [(tokens[span.start : span.end - 1], span.end - span.first) for span in spans]
        return means_table(head_means(lm, windows, context.hooks), lm.n_heads)

    def size(self, context: PromptContext, shard: Shard) -> float:
        return context.kind("windows").size(context, shard)

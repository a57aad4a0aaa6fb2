"""What each head hands over on average on a split of the corpus, for mean ablation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.metrics.bench import Bench, Kind, Shard
from engine.metrics.perplexity import spans_of
from engine.surgery.centre import head_means, means_table


class HeadMeans(Kind):
    """Columns: unit, then one per number of a head's output. Over the positions from which a token is scored."""

    name = "head_means"

    def parts(self, bench: Bench, shard: Shard) -> dict[str, Any]:
        return bench.kind("windows").parts(bench, shard)

    def compute(self, bench: Bench, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        return [self._one(bench, shard.split) for shard in shards]

    def _one(self, bench: Bench, split: str) -> pd.DataFrame:
        tokens, lm = bench.tokens[split], bench.lm
        spans = spans_of(len(tokens), bench.settings.window, lm.n_positions)
        windows = [(tokens[span.start : span.end - 1], span.end - span.first) for span in spans]
        return means_table(head_means(lm, windows, bench.hooks), lm.n_heads)

    def size(self, bench: Bench, shard: Shard) -> float:
        return bench.kind("windows").size(bench, shard)

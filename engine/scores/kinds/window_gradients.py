"""How the negative log-likelihood of each window of the corpus changes with each head's gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.metrics.bench import Bench, Kind, Shard
from engine.metrics.perplexity import spans_of
from engine.surgery.gate_gradients import row_gradients


class WindowGradients(Kind):
    """Columns: window, nll (nats, summed), tokens, then one per unit: ∂ nll / ∂ξ_h at ξ = 1."""

    name = "window_gradients"

    def parts(self, bench: Bench, shard: Shard) -> dict[str, Any]:
        return bench.kind("windows").parts(bench, shard)

    def compute(self, bench: Bench, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        return [self._one(bench, shard.split) for shard in shards]

    def _one(self, bench: Bench, split: str) -> pd.DataFrame:
        tokens = bench.tokens[split]
        spans = spans_of(len(tokens), bench.settings.window, bench.lm.n_positions)
        texts = [tokens[span.start : span.end] for span in spans]
        first = [span.first - span.start for span in spans]
        logps, slopes = row_gradients(bench.lm, texts, first, None, bench.hooks)
        table = {"window": [span.start for span in spans], "nll": -logps}
        table["tokens"] = [span.end - span.first for span in spans]
        names = [str(unit) for unit in range(slopes.shape[1])]
        return pd.concat([pd.DataFrame(table), pd.DataFrame(-slopes, columns=names)], axis=1)

    def size(self, bench: Bench, shard: Shard) -> float:
        return 3.0 * bench.kind("windows").size(bench, shard)

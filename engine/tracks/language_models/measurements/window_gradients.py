"""How the negative log-likelihood of each window of the corpus changes with each head's gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.surgery.heads.gate_gradients import row_gradients
from engine.tracks.language_models.context import Measurement, PromptContext, Shard
from engine.tracks.language_models.perplexity import spans_of


class WindowGradients(Measurement):
    """Columns: window, nll (nats, summed), tokens, then one per unit: ∂ nll / ∂ξ_h at ξ = 1."""

    name = "window_gradients"
    version = 2
    any_threads = True

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        return context.kind("windows").parts(context, shard)

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        return [self._one(context, shard.split) for shard in shards]

    def _one(self, context: PromptContext, split: str) -> pd.DataFrame:
        tokens = context.corpus_tokens(split)
        spans = spans_of(len(tokens), context.settings.window, context.lm.n_positions)
        texts = [tokens[span.start : span.end] for span in spans]
        first = [span.first - span.start for span in spans]
        logps, slopes = row_gradients(context.lm, texts, first, None, context.hooks)
        table = {"window": [span.start for span in spans], "nll": -logps}
        table["tokens"] = [span.end - span.first for span in spans]
        names = [str(unit) for unit in range(slopes.shape[1])]
        return pd.concat([pd.DataFrame(table), pd.DataFrame(-slopes, columns=names)], axis=1)

    def size(self, context: PromptContext, shard: Shard) -> float:
        return 3.0 * context.kind("windows").size(context, shard)

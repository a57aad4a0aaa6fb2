"""Negative log-likelihood of the corpus, window by window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from engine.metrics.bench import Bench, Kind, Shard
from engine.metrics.nll import window_nll
from engine.metrics.perplexity import spans_of
from engine.surgery.mask import masked


class Windows(Kind):
    """Columns: window (first token), nll (nats, summed), tokens (scored)."""

    name = "windows"

    def parts(self, bench: Bench, shard: Shard) -> dict[str, Any]:
        settings = bench.settings
        return {
            "corpus": bench.corpus.digest,
            "tokens": len(bench.tokens[shard.split]),
            "split": shard.split,
            "share": settings.validation_share,
            "window": asdict(settings.window),
        }

    def compute(self, bench: Bench, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        with masked(bench.lm, bench.mask(shards[0].cut)):
            return [
                window_nll(bench.lm, bench.tokens[shard.split], bench.settings.window, bench.hooks) for shard in shards
            ]

    def size(self, bench: Bench, shard: Shard) -> float:
        """A continuation of 40 tokens costs about as much as 200 tokens read at once."""
        spans = spans_of(len(bench.tokens[shard.split]), bench.settings.window, bench.lm.n_positions)
        return sum(span.end - span.start for span in spans) / 200.0

"""Negative log-likelihood of the corpus, window by window."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from engine.errors import PruneAuditError
from engine.metrics.bench import Bench, Kind, Shard
from engine.metrics.nll import window_nll
from engine.metrics.perplexity import spans_of
from engine.surgery.mask import masked
from engine.surgery.prefix import row_logps

TOGETHER = 32
"""About so many single heads share one dense pass; whole layers."""


class Windows(Kind):
    """Columns: window (first token), nll (nats, summed), tokens (scored).

    Single heads off come from one dense pass (engine.surgery.prefix), other masks from a pass of their own.
    """

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

    def together(self, bench: Bench, shard: Shard) -> Hashable:
        if len(shard.cut) != 1:
            return shard.cut
        layers = max(1, TOGETHER // bench.lm.n_heads)
        return shard.split, shard.cut[0] // (bench.lm.n_heads * layers)

    def compute(self, bench: Bench, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        if len(shards[0].cut) == 1 and len(shards) > 1:
            return single_heads(bench, shards[0].split, [shard.cut[0] for shard in shards])
        with masked(bench.lm, bench.mask(shards[0].cut)):
            return [
                window_nll(bench.lm, bench.tokens[shard.split], bench.settings.window, bench.hooks) for shard in shards
            ]

    def size(self, bench: Bench, shard: Shard) -> float:
        """A continuation of 40 tokens costs about as much as 200 tokens read at once."""
        spans = spans_of(len(bench.tokens[shard.split]), bench.settings.window, bench.lm.n_positions)
        return sum(span.end - span.start for span in spans) / 200.0


def single_heads(bench: Bench, split: str, units: Sequence[int]) -> list[pd.DataFrame]:
    """The tables of single heads off, by prefix reuse."""
    tokens = bench.tokens[split]
    spans = spans_of(len(tokens), bench.settings.window, bench.lm.n_positions)
    texts = [tokens[span.start : span.end] for span in spans]
    first = [span.first - span.start for span in spans]
    _, off = row_logps(bench.lm, texts, first, units, hooks=bench.hooks)
    if not np.isfinite(off).all():
        bad = [units[at] for at in np.flatnonzero(~np.isfinite(off).all(axis=1))]
        raise PruneAuditError(
            f"{bench.lm.name} in {bench.lm.dtype} gives no finite perplexity with {len(bad)} of {len(units)} heads off "
            f"(first: unit {bad[0]}). Try --dtype float32."
        )
    same = {"window": [span.start for span in spans], "tokens": [span.end - span.first for span in spans]}
    return [pd.DataFrame({**same, "nll": -logps})[["window", "nll", "tokens"]] for logps in off]

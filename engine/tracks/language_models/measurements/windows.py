"""Negative log-likelihood of the corpus, window by window."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import PruneAuditError
from engine.core.types import Window
from engine.surgery.heads.prefix import row_logps
from engine.tracks.language_models.context import Measurement, PromptContext, Shard
from engine.tracks.language_models.nll import window_nll
from engine.tracks.language_models.perplexity import LONGEST, spans_of

TOGETHER = 32
"""About so many single heads share one dense pass; whole layers."""


class Windows(Measurement):
    """Columns: window (first token), nll (nats, summed), tokens (scored).

    Single heads off come from one dense pass (engine.surgery.heads.prefix), other masks from a pass
    of their own.
    """

    name = "windows"
    version = 2
    whole = True
    any_threads = True
    pace = 1.2

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        settings = context.settings
        return {
            "corpus": context.corpus.digest,
            "tokens": len(context.corpus_tokens(shard.split)),
            "split": shard.split,
            "share": settings.validation_share,
            "window": asdict(settings.window),
        }

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        if len(shard.cut) != 1:
            return shard.cut, shard.arm
        layers = max(1, TOGETHER // context.lm.n_heads)
        return shard.split, shard.cut[0] // (context.lm.n_heads * layers)

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        if len(shards[0].cut) == 1 and len(shards) > 1:
            return single_heads(context, shards[0].split, [shard.cut[0] for shard in shards])
        window = (
            windows_alike(context.settings.window, context.lm.n_positions)
            if shards[0].arm
            else None
        )
        with context.applied(shards[0]) as lm:
            return [
                window_nll(
                    lm,
                    context.corpus_tokens(shard.split),
                    window or context.settings.window,
                    context.telling,
                )
                for shard in shards
            ]

    def size(self, context: PromptContext, shard: Shard) -> float:
        """A continuation of 40 tokens and its verdict cost about as much as 70 tokens read at
        once."""
        spans = spans_of(
            len(context.corpus_tokens(shard.split)), context.settings.window, context.lm.n_positions
        )
        return sum(span.end - span.start for span in spans) / 70.0


def windows_alike(window: Window, n_positions: int) -> Window:
    """The windows that a model of so many positions takes, for one that may have more."""
    return (
        window
        if window.published
        else replace(window, length=min(window.length or LONGEST, n_positions))
    )


def single_heads(context: PromptContext, split: str, units: Sequence[int]) -> list[pd.DataFrame]:
    """The tables of single heads off, by prefix reuse."""
    tokens = context.corpus_tokens(split)
    spans = spans_of(len(tokens), context.settings.window, context.lm.n_positions)
    texts = [tokens[span.start : span.end] for span in spans]
    first = [span.first - span.start for span in spans]
    _, off = row_logps(context.lm, texts, first, units, hooks=context.telling, whole=False)
    if not np.isfinite(off).all():
        bad = [units[at] for at in np.flatnonzero(~np.isfinite(off).all(axis=1)).tolist()]
        raise PruneAuditError(
            f"{context.lm.name} in {context.lm.dtype} gives no finite perplexity with {len(bad)} of"
            f" {len(units)} heads off (first: unit {bad[0]}). Try --dtype float32."
        )
    same = {
        "window": [span.start for span in spans],
        "tokens": [span.end - span.first for span in spans],
    }
    return [pd.DataFrame({**same, "nll": -logps})[["window", "nll", "tokens"]] for logps in off]

"""Exact perplexity of all heads: prefix reuse against plain masked forwards of the same batch
size."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from benchmarks.report import Measure, timed
from engine.surgery.heads.mask import masked
from engine.tracks.language_models.context import InMemory, PromptContext, Shard
from engine.tracks.language_models.likelihoods import window_nll
from engine.tracks.language_models.perplexity import perplexity

EQUAL, FASTER = 1e-5, 1.6


def perplexity_rows(name: str, context: PromptContext) -> list[Measure]:
    """Largest relative difference over all heads, and the ratio of the times."""
    units = range(context.lm.n_layers * context.lm.n_heads)
    shards = [Shard("windows", (unit,), split="validation") for unit in units]
    fresh = replace(context, keeper=InMemory())
    plain, slow = timed(lambda: [_plain(context, unit) for unit in units], time.process_time)
    tables, fast = timed(lambda: fresh.fetch(shards), time.process_time)
    reused = np.array([perplexity(table, context.settings.window) for table in tables])
    difference = np.max(np.abs(reused / np.array(plain) - 1))
    return [
        Measure(
            f"{name}: exact perplexity, prefix reuse against plain, largest relative difference",
            difference,
            "",
            EQUAL,
        ),
        Measure(
            f"{name}: exact perplexity, time of plain over prefix reuse",
            slow / fast,
            "times",
            FASTER,
            True,
        ),
    ]


def _plain(context: PromptContext, unit: int) -> float:
    with masked(context.lm, context.mask((unit,))):
        return perplexity(
            window_nll(context.lm, context.tokens["validation"], context.settings.window),
            context.settings.window,
        )

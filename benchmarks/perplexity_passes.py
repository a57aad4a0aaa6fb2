"""Exact perplexity of all heads: prefix reuse against plain masked forwards of the same batch size."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from benchmarks.report import Measure
from engine.metrics.bench import Bench, InMemory, Shard
from engine.metrics.nll import window_nll
from engine.metrics.perplexity import perplexity
from engine.surgery.mask import masked

EQUAL, FASTER = 1e-5, 1.6


def perplexity_rows(name: str, bench: Bench) -> list[Measure]:
    """Largest relative difference over all heads, and the ratio of the times."""
    units = range(bench.lm.n_layers * bench.lm.n_heads)
    start = time.perf_counter()
    plain = [_plain(bench, unit) for unit in units]
    slow = time.perf_counter() - start
    start = time.perf_counter()
    tables = replace(bench, keeper=InMemory()).fetch([Shard("windows", (unit,), split="validation") for unit in units])
    fast = time.perf_counter() - start
    reused = np.array([perplexity(table, bench.settings.window) for table in tables])
    difference = float(np.max(np.abs(reused / np.array(plain) - 1)))
    return [
        Measure(
            f"{name}: exact perplexity, prefix reuse against plain, largest relative difference", difference, "", EQUAL
        ),
        Measure(f"{name}: exact perplexity, time of plain over prefix reuse", slow / fast, "times", FASTER, True),
    ]


def _plain(bench: Bench, unit: int) -> float:
    with masked(bench.lm, bench.mask((unit,))):
        return perplexity(
            window_nll(bench.lm, bench.tokens["validation"], bench.settings.window), bench.settings.window
        )

"""What a cut really saves: parameters, bytes, and latency measured beside the dense model in the same minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.metrics.bench import Bench, Kind, Shard
from engine.models.load import LanguageModel
from engine.surgery.agree import agree
from engine.surgery.cut import cut

REPEATS = 15
BATCH = 8
PROBES = 4


class Cost(Kind):
    """One row: parameters, bytes, latency_ms with the 25th and 75th percentile, dense_latency_ms, speedup (median of
    paired ratios) with its quartiles, n (repeats), max_logit_difference (masked against cut), greedy_equal, agrees."""

    name = "cost"

    def parts(self, bench: Bench, shard: Shard) -> dict[str, Any]:
        return {"repeats": REPEATS, "batch": BATCH}

    def compute(self, bench: Bench, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        mask = bench.mask(shards[0].cut)
        small = cut(bench.lm, mask)
        agreement = agree(bench.lm, mask, bench.table["text"].head(PROBES).tolist())
        whole = bench.lm if bench.lm.means is None else cut(bench.lm, bench.mask(()))  # without the shift of its heads
        own, dense = _paired_latency(small, whole, bench.hooks.check)
        row = {
            "parameters": sum(parameter.numel() for parameter in small.model.parameters()),
            "bytes": sum(parameter.numel() * parameter.element_size() for parameter in small.model.parameters()),
            "latency_ms": float(np.median(own)),
            "latency_low": float(np.quantile(own, 0.25)),
            "latency_high": float(np.quantile(own, 0.75)),
            "dense_latency_ms": float(np.median(dense)),
            "speedup": float(np.median(dense / own)),
            "speedup_low": float(np.quantile(dense / own, 0.25)),
            "speedup_high": float(np.quantile(dense / own, 0.75)),
            "n": REPEATS,
            "max_logit_difference": agreement.max_logit_difference,
            "greedy_equal": agreement.greedy_equal,
            "agrees": agreement.holds,
        }
        return [pd.DataFrame([row]) for _ in shards]

    def size(self, bench: Bench, shard: Shard) -> float:
        return 20.0


def _paired_latency(
    small: LanguageModel, dense: LanguageModel, check: Callable[[], None]
) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds of one forward pass, cut and dense in turn so that a busy machine disturbs both alike."""
    length = min(64, dense.n_positions)
    ids = torch.zeros((BATCH, length), dtype=torch.int64, device=dense.device)
    times = np.zeros((2, REPEATS))
    for repeat in range(-2, REPEATS):  # two rounds of warming up
        check()
        for row, lm in enumerate((small, dense)):
            start = time.perf_counter()
            with torch.no_grad():
                lm.model(input_ids=ids, use_cache=False)
            if str(lm.device).startswith("cuda"):
                torch.cuda.synchronize()
            if repeat >= 0:
                times[row, repeat] = (time.perf_counter() - start) * 1e3
    return times[0], times[1]

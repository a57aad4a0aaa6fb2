"""Measured time of two models in turn, so that a busy machine disturbs both alike."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

WARM_UP = 2
LEAST = 5
"""Rounds that are counted however long they take: quartiles need some."""
PATIENCE = 2.0
"""Seconds after which LEAST rounds are enough: a large model's times scatter less, and sixteen
rounds of it would take longer than its texts."""


def paired_latency(
    own: Callable[[], object],
    dense: Callable[[], object],
    repeats: int,
    device: torch.device | str,
    check: Callable[[], None] = lambda: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds of each call, [rounds] float64 for `own` and for `dense`: `repeats` of them,
    fewer where they take long (PATIENCE). WARM_UP rounds before, one where it takes long, are not
    counted."""
    times: list[tuple[float, float]] = []
    spent, warm = 0.0, 0
    while len(times) < repeats and (len(times) < LEAST or spent < PATIENCE):
        check()
        pair = _milliseconds(own, device), _milliseconds(dense, device)
        spent += sum(pair) / 1e3
        if warm < WARM_UP and (warm == 0 or spent < PATIENCE):
            warm += 1
        else:
            times.append(pair)
    mine, theirs = np.array(times).T
    return mine, theirs


def _milliseconds(run: Callable[[], object], device: torch.device | str) -> float:
    start = time.perf_counter()
    with torch.no_grad():
        run()
    if str(device).startswith("cuda"):
        torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def latency_row(own: np.ndarray, dense: np.ndarray) -> dict[str, float]:
    """Medians and quartiles of two latencies [repeats] in ms; speedup: median and quartiles of
    paired ratios."""
    return {
        "latency_ms": float(np.median(own)),
        "latency_low": float(np.quantile(own, 0.25)),
        "latency_high": float(np.quantile(own, 0.75)),
        "dense_latency_ms": float(np.median(dense)),
        "speedup": float(np.median(dense / own)),
        "speedup_low": float(np.quantile(dense / own, 0.25)),
        "speedup_high": float(np.quantile(dense / own, 0.75)),
        "n": len(own),
    }

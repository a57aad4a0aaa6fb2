"""Measured time of two models in turn, so that a busy machine disturbs both alike."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

WARM_UP = 2


def paired_latency(
    own: Callable[[], object],
    dense: Callable[[], object],
    repeats: int,
    device: torch.device | str,
    check: Callable[[], None] = lambda: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds of each call, [repeats] float64 for `own` and for `dense`; WARM_UP rounds before are not counted."""
    times = np.zeros((2, repeats))
    for repeat in range(-WARM_UP, repeats):
        check()
        for row, run in enumerate((own, dense)):
            start = time.perf_counter()
            with torch.no_grad():
                run()
            if str(device).startswith("cuda"):
                torch.cuda.synchronize()
            if repeat >= 0:
                times[row, repeat] = (time.perf_counter() - start) * 1e3
    return times[0], times[1]


def latency_row(own: np.ndarray, dense: np.ndarray) -> dict[str, float]:
    """Medians and quartiles of two latencies [repeats] in ms; speedup: median and quartiles of paired ratios."""
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

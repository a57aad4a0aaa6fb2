"""Intervals of a perplexity: block bootstrap over the windows of a text, since neighbouring windows
are alike.

Tables have one row per window: window (its place), nll (nats, summed over its scored tokens),
tokens (how many).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd

from engine.core.errors import PruneAuditError
from engine.core.seeds import rng
from engine.stats.resampling import MIN_WINDOWS, Difference, Interval, difference_of, interval_of


@lru_cache(maxsize=2)
def block_weights(n_windows: int, n_boot: int = 1000, seed: int = 0) -> np.ndarray:
    """How often each window is drawn, [n_boot, n_windows] float64, not to be written to: circular
    blocks of about n^(1/3) windows. The same for every mask."""
    length = max(1, round(n_windows ** (1 / 3)))
    starts = rng("blocks", seed).integers(0, n_windows, size=(n_boot, -(-n_windows // length)))
    drawn = (starts[:, :, None] + np.arange(length)).reshape(n_boot, -1)[:, :n_windows] % n_windows
    places = drawn + np.arange(n_boot)[:, None] * n_windows
    weights = (
        np.bincount(places.ravel(), minlength=n_boot * n_windows)
        .reshape(n_boot, n_windows)
        .astype(float)
    )
    weights.flags.writeable = False
    return weights


def perplexity_interval(windows: pd.DataFrame, n_boot: int = 1000, seed: int = 0) -> Interval:
    """exp(Σ nll / Σ tokens) with its interval; NaN ends below MIN_WINDOWS windows. n counts
    windows."""
    ordered = _ordered(windows)
    value, replicates = _perplexities(ordered, block_weights(len(ordered), n_boot, seed))
    return interval_of(value, _enough(replicates, len(ordered)), len(ordered), floor=1.0)


def paired_perplexity_difference(
    dense: pd.DataFrame, variant: pd.DataFrame, n_boot: int = 1000, seed: int = 0
) -> Difference:
    """Perplexity of the variant minus that of the dense model on the same windows and
    replicates."""
    left, right = _ordered(dense), _ordered(variant)
    if not left[["window", "tokens"]].equals(right[["window", "tokens"]]):
        raise PruneAuditError(
            "The two perplexities were measured on different windows, so they cannot be paired."
        )
    weights = block_weights(len(left), n_boot, seed)
    before, before_replicates = _perplexities(left, weights)
    after, after_replicates = _perplexities(right, weights)
    return difference_of(
        after - before, _enough(after_replicates - before_replicates, len(left)), len(left)
    )


def share_interval(
    windows: pd.DataFrame, column: str, n_boot: int = 1000, most: float = np.inf
) -> Interval:
    """Σ column / Σ tokens over a text's windows, at least 0, at most `most`, with its interval; n
    counts windows."""
    ordered = windows.sort_values("window", ignore_index=True)
    total, tokens = ordered[column].to_numpy(dtype=float), ordered["tokens"].to_numpy(dtype=float)
    weights = block_weights(len(ordered), n_boot)
    replicates = _enough((weights @ total) / (weights @ tokens), len(ordered))
    return interval_of(
        total.sum() / tokens.sum(), replicates, len(ordered), floor=0.0, ceiling=most
    )


def _ordered(windows: pd.DataFrame) -> pd.DataFrame:
    if not len(windows) or not np.isfinite(windows["nll"].to_numpy(dtype=float)).all():
        raise PruneAuditError(
            "The perplexity windows are empty or hold values that are not finite."
        )
    return windows[["window", "nll", "tokens"]].sort_values("window", ignore_index=True)


def _perplexities(windows: pd.DataFrame, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """Perplexity of all windows, and under each row of weights [n_boot, windows]: [n_boot]."""
    nll, tokens = windows["nll"].to_numpy(dtype=float), windows["tokens"].to_numpy(dtype=float)
    return float(np.exp(nll.sum() / tokens.sum())), np.exp((weights @ nll) / (weights @ tokens))


def _enough(replicates: np.ndarray, n_windows: int) -> np.ndarray:
    """The replicates [n_boot], NaN where there are too few windows for an interval."""
    return replicates if n_windows >= MIN_WINDOWS else np.full_like(replicates, np.nan)

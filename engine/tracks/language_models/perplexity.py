"""Perplexity of a causal language model on a text: exp of the mean negative log-likelihood per
token.

Each token is scored once, with at least `length - stride` tokens of context where the text has
them. The published FASP code takes windows of n_positions / 4 tokens (the caller halves, the
function halves again) that begin at every 512th token. It scores every token of a window that no
earlier window ended behind, and averages window means. Of GPT-2's 512 tokens it scores the first
256, without context. `Window(published=True)` reproduces that, for comparison with published
numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from engine.core.errors import PruneAuditError
from engine.core.types import Window, rng
from engine.stats.resampling import (
    MIN_WINDOWS,
    Difference,
    Interval,
    difference_of,
    few_drawn,
    interval_of,
)

PUBLISHED_STEP = 512
"""Tokens between the beginnings of the published code's windows, whatever the model."""
LONGEST = 1024
"""Tokens of a window where nothing else is asked for, as far as the model's positions reach."""
MANY, BLOCK = 20, 32
"""Below so many windows of a text their scored tokens are kept in blocks of so many, for an
interval to rest on."""


@dataclass(frozen=True)
class Span:
    """Tokens [start, end) go in, behind those that begin every text; those from `first` on are
    scored."""

    start: int
    end: int
    first: int
    begin: tuple[int, ...] = ()

    def ids(self, tokens: Sequence[int]) -> list[int]:
        """What the model reads of a text's tokens."""
        return [*self.begin, *tokens[self.start : self.end]]

    @property
    def scored(self) -> int:
        """The place in `ids` of the first token that is scored."""
        return self.first - self.start + len(self.begin)


def spans_of(
    n_tokens: int, window: Window, n_positions: int, begin: tuple[int, ...] = ()
) -> list[Span]:
    """Windows over a text of n_tokens. Token 0 is scored only behind tokens that begin a text.

    begin: those that the tokenizer puts before every text; the published windows have none.
    """
    if window.published:
        return _published(n_tokens, published_length(n_positions))
    length = min(window.length or LONGEST, n_positions - len(begin))
    stride = min(window.stride or max(length // 2, 1), length)
    spans, done = [], 0 if begin else 1
    for start in range(0, n_tokens, stride):
        end = min(start + length, n_tokens)
        if end > done:
            spans.append(Span(start, end, done, begin))
            done = end
    return spans


def block_of(n_tokens: int, window: Window, n_positions: int) -> int | None:
    """Scored tokens in a row of a text's table; None: those of a window, of which there are MANY.
    The published mean is one of whole windows."""
    few = len(spans_of(n_tokens, window, n_positions)) < MANY
    return BLOCK if few and not window.published else None


def rows_in(scored: np.ndarray, span: Span, block: int | None) -> list[tuple[int, float, int]]:
    """Where each row of a window begins, the sum of its part of `scored` [tokens], and how many
    these are."""
    if block is None:
        return [(span.start, float(scored.sum()), len(scored))]
    parts = [(at, scored[at : at + block]) for at in range(0, len(scored), block)]
    return [(span.first + at, float(part.sum()), len(part)) for at, part in parts]


def published_length(n_positions: int) -> int:
    """Tokens in a window of the published code; below 2 it can score nothing."""
    return n_positions // 4


def _published(n_tokens: int, length: int) -> list[Span]:
    """Windows of `length` tokens at every PUBLISHED_STEP, as far as the text goes; one token alone
    is no window."""
    spans, done = [], 0
    for start in range(0, n_tokens, PUBLISHED_STEP):
        end = min(start + length, n_tokens)
        if end - start >= 2:
            spans.append(Span(start, end, max(start + 1, done)))
        done = end
        if end == n_tokens:
            break
    return spans


def same_length(spans: list[Span], batch_size: int) -> list[list[Span]]:
    """Batches of windows of one length, in text order; only the last window of a text can
    differ."""
    groups: list[list[Span]] = []
    for span in spans:
        fits = groups and len(groups[-1]) < batch_size
        if fits and groups[-1][0].end - groups[-1][0].start == span.end - span.start:
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def perplexity(windows: pd.DataFrame, window: Window | None = None) -> float:
    """exp(Σ nll / Σ tokens); with the published preset, exp of the mean of window means."""
    return float(np.exp(log_perplexities(windows, np.ones((1, len(windows))), window)[0]))


def log_perplexities(
    windows: pd.DataFrame, weights: np.ndarray, window: Window | None
) -> np.ndarray:
    """Log perplexity (nats) under each row of weights [draws, windows]: [draws]."""
    nll, tokens = windows["nll"].to_numpy(dtype=float), windows["tokens"].to_numpy(dtype=float)
    if window is not None and window.published:
        nll, tokens = nll / tokens, np.ones(len(windows))
    return (weights @ nll) / (weights @ tokens)


# Intervals of a perplexity: block bootstrap over the windows of a text, since neighbouring
# windows are alike.
#
# Tables have one row per window, of a short text per BLOCK tokens of one: window (its place), nll
# (nats, summed over its scored tokens), tokens (how many).


N_BOOT = 1000
"""Draws of blocks."""


@lru_cache(maxsize=2)
def block_weights(n_windows: int, n_boot: int) -> np.ndarray:
    """How often each window is drawn, [n_boot, n_windows] float64, not to be written to: circular
    blocks of about 2 n^(1/3) windows. The same for every mask."""
    length = _length(n_windows)
    starts = rng("blocks", 0).integers(0, n_windows, size=(n_boot, -(-n_windows // length)))
    drawn = (starts[:, :, None] + np.arange(length)).reshape(n_boot, -1)[:, :n_windows] % n_windows
    places = drawn + np.arange(n_boot)[:, None] * n_windows
    weights = (
        np.bincount(places.ravel(), minlength=n_boot * n_windows)
        .reshape(n_boot, n_windows)
        .astype(float)
    )
    weights.flags.writeable = False
    return weights


def perplexity_interval(windows: pd.DataFrame) -> Interval:
    """exp(Σ nll / Σ tokens) with its interval; NaN ends below MIN_WINDOWS windows. n counts
    windows."""
    ordered = _ordered(windows)
    value, replicates = _perplexities(ordered, block_weights(len(ordered), N_BOOT))
    return interval_of(value, widened(replicates, len(ordered)), len(ordered), floor=1.0)


def paired_perplexity_difference(
    dense: pd.DataFrame, variant: pd.DataFrame, n_boot: int = N_BOOT
) -> Difference:
    """Perplexity of the variant minus that of the dense model on the same windows and
    replicates."""
    left, right = _ordered(dense), _ordered(variant)
    if not left[["window", "tokens"]].equals(right[["window", "tokens"]]):
        raise PruneAuditError(
            "The two perplexities were measured on different windows, so they cannot be paired."
        )
    weights = block_weights(len(left), n_boot)
    before, before_replicates = _perplexities(left, weights)
    after, after_replicates = _perplexities(right, weights)
    return difference_of(
        after - before, widened(after_replicates - before_replicates, len(left)), len(left)
    )


def share_interval(windows: pd.DataFrame, column: str, most: float) -> Interval:
    """Σ column / Σ tokens over a text's windows, at least 0, at most `most`, with its interval; n
    counts windows."""
    ordered = windows.sort_values("window", ignore_index=True)
    total, tokens = ordered[column].to_numpy(dtype=float), ordered["tokens"].to_numpy(dtype=float)
    weights = block_weights(len(ordered), N_BOOT)
    replicates = widened((weights @ total) / (weights @ tokens), len(ordered))
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


def _length(n_windows: int) -> int:
    """Windows of a block."""
    return max(1, round(2 * n_windows ** (1 / 3)))


def widened(replicates: np.ndarray, n_windows: int) -> np.ndarray:
    """The replicates [n_boot, ...], as far apart as so few blocks ask for; NaN with too few
    windows."""
    if n_windows < MIN_WINDOWS:
        return np.full_like(replicates, np.nan)
    return few_drawn(replicates, n_windows / _length(n_windows) - 1)

"""Perplexity of a causal language model on a text: exp of the mean negative log-likelihood per
token.

Each token is scored once, with at least `length - stride` tokens of context where the text has
them. The published FASP code takes windows of n_positions / 4 tokens (the caller halves, the
function halves again) that begin at every 512th token, scores every token of a window that no
earlier window ended behind, and averages window means: of GPT-2's 512 tokens it scores the first
256, without context. `Window(published=True)` reproduces that, for comparison with published
numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.core.types import Window

PUBLISHED_STEP = 512
"""Tokens between the beginnings of the published code's windows, whatever the model."""
LONGEST = 1024
"""Tokens of a window where nothing else is asked for, as far as the model's positions reach."""


@dataclass(frozen=True)
class Span:
    """Tokens [start, end) go in; those from `first` on are scored."""

    start: int
    end: int
    first: int


def spans_of(n_tokens: int, window: Window, n_positions: int) -> list[Span]:
    """Windows over a text of n_tokens. Token 0 has no context and is never scored."""
    if window.published:
        return _published(n_tokens, published_length(n_positions))
    length = min(window.length or LONGEST, n_positions)
    stride = min(window.stride or max(length // 2, 1), length)
    spans, done = [], 1
    for start in range(0, n_tokens, stride):
        end = min(start + length, n_tokens)
        if end > done:
            spans.append(Span(start, end, done))
            done = end
    return spans


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
    windows: pd.DataFrame, weights: np.ndarray, window: Window | None = None
) -> np.ndarray:
    """Log perplexity (nats) under each row of weights [draws, windows]: [draws]."""
    nll, tokens = windows["nll"].to_numpy(dtype=float), windows["tokens"].to_numpy(dtype=float)
    if window is not None and window.published:
        nll, tokens = nll / tokens, np.ones(len(windows))
    return (weights @ nll) / (weights @ tokens)

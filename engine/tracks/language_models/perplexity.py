"""Perplexity of a causal language model on a text: exp of the mean negative log-likelihood per token.

Each token is scored once, with at least `length - stride` tokens of context where the text has them. The published
FASP code scores half of the tokens and averages window means; `Window(published=True)` reproduces that, for comparison
with published numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.core.types import Window


@dataclass(frozen=True)
class Span:
    """Tokens [start, end) go in; those from `first` on are scored."""

    start: int
    end: int
    first: int


def spans_of(n_tokens: int, window: Window, n_positions: int) -> list[Span]:
    """Windows over a text of n_tokens. Token 0 has no context and is never scored."""
    length = min(window.length or 1024, n_positions)
    if window.published:
        length = length // 2
        return [Span(at, at + length, at + length // 2) for at in range(0, n_tokens - length + 1, length)]
    stride = min(window.stride or max(length // 2, 1), length)
    spans, done = [], 1
    for start in range(0, n_tokens, stride):
        end = min(start + length, n_tokens)
        if end > done:
            spans.append(Span(start, end, done))
            done = end
    return spans


def same_length(spans: list[Span], batch_size: int) -> list[list[Span]]:
    """Batches of windows of one length, in text order; only the last window of a text can differ."""
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
    if window is not None and window.published:
        return float(np.exp((windows["nll"] / windows["tokens"]).mean()))
    return float(np.exp(windows["nll"].sum() / windows["tokens"].sum()))

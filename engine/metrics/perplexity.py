"""Perplexity of a causal language model on a text: exp of the mean negative log-likelihood per token.

Each token is scored once, with at least `length - stride` tokens of context where the text has them. The published
FASP code scores half of the tokens and averages window means; `Window(published=True)` reproduces that, for comparison
with published numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from engine.models.decode import left_pad, prompt_tokens
from engine.models.load import LanguageModel
from engine.types import Hooks, Window


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


def corpus_tokens(lm: LanguageModel, text: str) -> list[int]:
    """The whole text as token ids, without special tokens."""
    return lm.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]


def token_nll(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Negative log-likelihood in nats of ids[:, 1:], in float32. logits (b, t, v), ids (b, t) -> (b, t-1)."""
    return torch.nn.functional.cross_entropy(logits[:, :-1].float().transpose(1, 2), ids[:, 1:], reduction="none")


@torch.no_grad()
def window_nll(
    lm: LanguageModel,
    tokens: list[int],
    window: Window,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    batch_size: int = 16,
) -> pd.DataFrame:
    """One row per window: window, nll (nats, summed over its scored tokens), tokens (how many it scored)."""
    spans = spans_of(len(tokens), window, lm.n_positions)
    text = torch.tensor(tokens, dtype=torch.int64)
    rows = []
    for group in _same_length(spans, batch_size):
        hooks.check()
        ids = torch.stack([text[span.start : span.end] for span in group]).to(lm.device)
        nll = token_nll(lm.model(input_ids=ids, use_cache=False).logits, ids).cpu().numpy().astype(np.float64)
        for row, span in zip(nll, group, strict=True):
            scored = row[span.first - span.start - 1 :]
            rows.append((span.start, float(scored.sum()), len(scored)))
    return pd.DataFrame(rows, columns=["window", "nll", "tokens"])


def _same_length(spans: list[Span], batch_size: int) -> list[list[Span]]:
    """Batches of windows of one length, in text order; only the last window of a text can differ."""
    groups: list[list[Span]] = []
    for span in spans:
        fits = groups and len(groups[-1]) < batch_size
        if fits and groups[-1][0].end - groups[-1][0].start == span.end - span.start:
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


@torch.no_grad()
def prompt_nll(
    lm: LanguageModel,
    texts: list[str],
    limit: int,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    batch_size: int = 256,
) -> pd.DataFrame:
    """How well the model knows each prompt: nll (nats) and tokens scored, one row per text, in the order given."""
    rows = prompt_tokens(lm, texts, limit)
    order = sorted(range(len(rows)), key=lambda at: (len(rows[at]), at))
    out = np.zeros((len(rows), 2))
    for at in range(0, len(order), batch_size):
        hooks.check()
        places = order[at : at + batch_size]
        batch = left_pad([rows[place] for place in places], lm.device)
        logits = lm.model(
            input_ids=batch.ids, attention_mask=batch.mask, position_ids=batch.positions, use_cache=False
        ).logits
        scored = batch.mask[:, :-1] * batch.mask[:, 1:]
        nll = (token_nll(logits, batch.ids) * scored).sum(1)
        out[places, 0], out[places, 1] = nll.cpu().numpy(), scored.sum(1).cpu().numpy()
    return pd.DataFrame({"nll": out[:, 0], "tokens": out[:, 1].astype(int)})


def perplexity(windows: pd.DataFrame, window: Window | None = None) -> float:
    """exp(Σ nll / Σ tokens); with the published preset, exp of the mean of window means."""
    if window is not None and window.published:
        return float(np.exp((windows["nll"] / windows["tokens"]).mean()))
    return float(np.exp(windows["nll"].sum() / windows["tokens"].sum()))

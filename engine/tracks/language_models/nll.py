"""Negative log-likelihoods of text under a language model, in nats."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch.nn.functional import cross_entropy

from engine.core.types import Hooks, Window
from engine.models.decode import left_pad, prompt_tokens
from engine.models.load_language_model import LanguageModel
from engine.models.room import positions_at_once, rows_at_once
from engine.tracks.language_models.perplexity import same_length, spans_of

FEW = 8
"""Positions whose probabilities are held at once: blocks as large as all logits leave holes in
malloc's memory."""


def corpus_tokens(lm: LanguageModel, text: str) -> list[int]:
    """The whole text as token ids, without special tokens."""
    return lm.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]


def token_nll(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Negative log-likelihood in nats of ids[:, 1:], in float32. logits [b, t, v], ids [b, t] ->
    [b, t-1]."""
    return cross_entropy(logits[:, :-1].float().transpose(1, 2), ids[:, 1:], reduction="none")


@torch.no_grad()
def window_nll(
    lm: LanguageModel,
    tokens: list[int],
    window: Window,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    batch_size: int = 16,
) -> pd.DataFrame:
    """One row per window: window, nll (nats, summed over its scored tokens), tokens (how many it
    scored)."""
    spans = spans_of(len(tokens), window, lm.n_positions)
    text = torch.tensor(tokens, dtype=torch.int64)
    rows: list[tuple[int, float, int]] = []
    longest = max((span.end - span.start for span in spans), default=1)
    for group in same_length(spans, rows_at_once(lm, batch_size, longest)):
        hooks.check()
        hooks.inside(len(rows) / len(spans))
        ids = torch.stack([text[span.start : span.end] for span in group]).to(lm.device)
        nll = _nll_of(lm, ids).cpu().numpy().astype(np.float64)
        for row, span in zip(nll, group, strict=True):
            scored = row[span.first - span.start - 1 :]
            rows.append((span.start, float(scored.sum()), len(scored)))
    return pd.DataFrame(rows, columns=["window", "nll", "tokens"])


def _nll_of(lm: LanguageModel, ids: torch.Tensor) -> torch.Tensor:
    """`token_nll` of ids [b, t]; a few positions at a time where all their logits are more than may
    be held."""
    step = positions_at_once(lm)
    if ids.shape[1] <= step:
        return token_nll(lm.model(input_ids=ids, use_cache=False).logits, ids)
    hidden = lm.adapter.backbone(lm.model)(input_ids=ids, use_cache=False).last_hidden_state
    parts = []
    for at in range(0, ids.shape[1] - 1, step):
        end = min(at + step, ids.shape[1] - 1)
        logits = lm.adapter.logits(lm.model, hidden[:, at:end].flatten(0, 1), normed=True).float()
        wanted = ids[:, at + 1 : end + 1]
        few = zip(logits.split(FEW), wanted.flatten().split(FEW), strict=True)
        parts.append(
            torch.cat([cross_entropy(*one, reduction="none") for one in few]).view(wanted.shape)
        )
    return torch.cat(parts, dim=1)


@torch.no_grad()
def prompt_nll(
    lm: LanguageModel,
    texts: list[str],
    limit: int,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    batch_size: int = 256,
) -> pd.DataFrame:
    """How well the model knows each prompt: nll (nats) and tokens scored, one row per text, in the
    order given."""
    rows = prompt_tokens(lm, texts, limit)
    order = sorted(range(len(rows)), key=lambda at: (len(rows[at]), at))
    out = np.zeros((len(rows), 2))
    size = rows_at_once(lm, batch_size, max(map(len, rows), default=1))
    for at in range(0, len(order), size):
        hooks.check()
        places = order[at : at + size]
        batch = left_pad([rows[place] for place in places], lm.device)
        logits = lm.model(
            input_ids=batch.ids,
            attention_mask=batch.mask,
            position_ids=batch.positions,
            use_cache=False,
        ).logits
        scored = batch.mask[:, :-1] * batch.mask[:, 1:]
        nll = (token_nll(logits, batch.ids) * scored).sum(1)
        out[places, 0], out[places, 1] = nll.cpu().numpy(), scored.sum(1).cpu().numpy()
    return pd.DataFrame({"nll": out[:, 0], "tokens": out[:, 1].astype(int)})

"""Negative log-likelihood of the corpus, window by window."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import torch

from engine.core.errors import PruneAuditError
from engine.core.types import Values
from engine.models.load_language_model import LanguageModel
from engine.models.runtime import positions_at_once, rows_at_once
from engine.surgery.heads.mask import gated, head_means, means_table
from engine.surgery.heads.prefix import row_gradients, row_logps
from engine.tracks.language_models.context import Measurement, PromptContext, Shard
from engine.tracks.language_models.likelihoods import (
    hidden_of,
    logits_of,
    prompt_nll,
    token_nll,
    window_nll,
)
from engine.tracks.language_models.measurements.texts import head_group
from engine.tracks.language_models.perplexity import (
    LONGEST,
    Span,
    block_of,
    rows_in,
    same_length,
    spans_of,
)


class Windows(Measurement):
    """Columns: window (first token), nll (nats, summed), tokens (scored). A short text for test is
    kept in blocks of tokens (`block_of`).

    Single heads off come from one dense pass (engine.surgery.heads.prefix), other masks from a pass
    of their own.
    """

    name = "windows"
    version = 2
    whole = True
    any_threads = True
    pace = 1.2

    def parts(self, context: PromptContext, shard: Shard) -> Values:
        settings = context.settings
        return {
            "corpus": context.corpus.digest,
            "tokens": len(context.tokens[shard.split]),
            "split": shard.split,
            "share": settings.validation_share,
            "window": asdict(settings.window),
            **({"block": block} if (block := kept_in(context, shard.split)) else {}),
        }

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        if len(shard.cut) != 1 or kept_in(context, shard.split):
            return shard.cut, shard.arm
        return shard.split, head_group(context, shard.cut[0])

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        block = kept_in(context, shards[0].split)
        if len(shards[0].cut) == 1 and len(shards) > 1 and not block:
            return single_heads(context, shards[0].split, [shard.cut[0] for shard in shards])
        window, room = context.settings.window, context.lm.n_positions - len(context.lm.begin)
        if shards[0].arm and not window.published:  # which may have more positions
            window = replace(window, length=min(window.length or LONGEST, room))
        with context.applied(shards[0]) as lm:
            return [
                window_nll(lm, context.tokens[shard.split], window, context.telling, block)
                for shard in shards
            ]

    def size(self, context: PromptContext, shard: Shard) -> float:
        """A continuation of 40 tokens and its verdict cost about as much as 70 tokens read at
        once."""
        spans = spans_of(
            len(context.tokens[shard.split]), context.settings.window, context.lm.n_positions
        )
        return sum(span.end - span.start for span in spans) / 70.0


def kept_in(context: PromptContext, split: str) -> int | None:
    """`block_of` the text for test; effects of heads are those on whole windows of the other."""
    if split != "test":
        return None
    n_tokens, window = len(context.tokens[split]), context.settings.window
    return block_of(n_tokens, window, context.lm.n_positions)


def _windows(context: PromptContext, tokens: Sequence[int]) -> tuple[list[Span], list[list[int]]]:
    """The windows of a text, and what the model reads of each."""
    lm = context.lm
    spans = spans_of(len(tokens), context.settings.window, lm.n_positions, lm.begin)
    return spans, [span.ids(tokens) for span in spans]


def single_heads(context: PromptContext, split: str, units: Sequence[int]) -> list[pd.DataFrame]:
    """The tables of single heads off, by prefix reuse."""
    spans, texts = _windows(context, context.tokens[split])
    first = [span.scored for span in spans]
    _, off = row_logps(context.lm, texts, first, units, hooks=context.telling, whole=False)
    if not np.isfinite(off).all():
        bad = [units[at] for at in np.flatnonzero(~np.isfinite(off).all(axis=1)).tolist()]
        raise PruneAuditError(
            f"{context.lm.name} in {context.lm.dtype} gives no finite perplexity with {len(bad)} of"
            f" {len(units)} heads off (first: unit {bad[0]}). Try --dtype float32."
        )
    same = {
        "window": [span.start for span in spans],
        "tokens": [span.end - span.first for span in spans],
    }
    return [pd.DataFrame({**same, "nll": -logps})[["window", "nll", "tokens"]] for logps in off]


# How the negative log-likelihood of each window of the corpus changes with each head's gate.


class _OfText(Measurement):
    """What is measured on the text that `windows` reads, so many times as much work."""

    any_threads = True
    times: float = 1.0

    def parts(self, context: PromptContext, shard: Shard) -> Values:
        return context.kind("windows").parts(context, shard)

    def size(self, context: PromptContext, shard: Shard) -> float:
        return self.times * context.kind("windows").size(context, shard)


class _OfDense(_OfText):
    """What is measured on the dense model alone."""

    @abstractmethod
    def of_split(self, context: PromptContext, split: str) -> pd.DataFrame:
        """The table of the text of a split."""

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        return [self.of_split(context, shard.split) for shard in shards]


class WindowGradients(_OfDense):
    """Columns: window, nll (nats, summed), tokens, then one per unit: ∂ nll / ∂ξ_h at ξ = 1."""

    name = "window_gradients"
    version = 2
    times = 3.0

    def of_split(self, context: PromptContext, split: str) -> pd.DataFrame:
        spans, texts = _windows(context, context.tokens[split])
        first = [span.scored for span in spans]
        logps, slopes = row_gradients(context.lm, texts, first, None, context.hooks)
        table = {"window": [span.start for span in spans], "nll": -logps}
        table["tokens"] = [span.end - span.first for span in spans]
        names = [str(unit) for unit in range(slopes.shape[1])]
        return pd.concat([pd.DataFrame(table), pd.DataFrame(-slopes, columns=names)], axis=1)


# How far a variant's next tokens are from the dense model's, token by token on the text for
# perplexity.


KEPT = 1 << 26
"""The dense model's hidden states of a text that are kept, in numbers: a quarter of a gigabyte."""


class Divergence(_OfText):
    """Columns: window (its first token, or that of a block of them), kl, flipped, tokens (scored).
    kl: nats, Σ over its scored tokens of KL(dense ‖ variant); flipped: how many of them have
    another likeliest token.

    Windows overlap by one token: both models read the text once, and a window's first tokens have
    little context.
    """

    name = "divergence"
    version = 2
    later = True

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        return shard.cut, shard.arm, shard.split

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        tokens = context.tokens[shards[0].split]
        lm, window = context.lm, context.settings.window
        length = window.length or min(LONGEST, lm.n_positions - len(lm.begin))
        apart = window if window.published else replace(window, length=length, stride=length - 1)
        spans = spans_of(len(tokens), apart, lm.n_positions, lm.begin)
        longest = max((span.end - span.start for span in spans), default=1)
        block = kept_in(context, shards[0].split)
        rows: list[tuple[int, float, int, int]] = []
        for group in same_length(spans, rows_at_once(lm, 16, longest)):
            context.hooks.check()
            ids = torch.tensor([span.ids(tokens) for span in group], device=lm.device)
            at = shards[0].split, group[0].start, len(group)
            dense = context.hidden[at] if at in context.hidden else hidden_of(lm, ids)
            if len(tokens) * dense.shape[-1] <= KEPT:  # every variant is set against them
                context.hidden[at] = dense
            with context.applied(shards[0]) as changed:
                kl, flipped = _apart((lm, dense), (changed, hidden_of(changed, ids)))
            for span, *both in zip(group, kl, flipped, strict=True):
                far, other = (rows_in(one[span.scored - 1 :], span, block) for one in both)
                rows += [
                    (start, nats, int(differ), n)
                    for (start, nats, n), (_, differ, _) in zip(far, other, strict=True)
                ]
        table = pd.DataFrame(rows, columns=["window", "kl", "flipped", "tokens"])
        return [table for _ in shards]


@torch.no_grad()
def _apart(*models: tuple[LanguageModel, torch.Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """KL of two models and whether their likeliest tokens differ, [windows, tokens - 1] each, by
    what `hidden_of` gives of both. Where one has room for more tokens than the tokenizer knows,
    those are left out."""
    step = positions_at_once(models[0][0])
    parts = zip(*(hidden[:, :-1].flatten(0, 1).split(step) for _, hidden in models), strict=True)
    kl, flipped = [], []
    for part in parts:
        both = [logits_of(lm, some) for (lm, _), some in zip(models, part, strict=True)]
        known = min(logits.shape[-1] for logits in both)
        one, two = (logits[:, :known].log_softmax(-1) for logits in both)
        kl.append((one.exp() * (one - two)).sum(-1).double().clamp(min=0))
        flipped.append(one.argmax(-1) != two.argmax(-1))
    far, other = (
        torch.cat(found).view(len(models[0][1]), -1).cpu().numpy() for found in (kl, flipped)
    )
    return far, other


# What each head hands over on average on a split of the corpus, for mean ablation.


class HeadMeans(_OfDense):
    """Columns: unit, then one per number of a head's output. Over the positions from which a token
    is scored."""

    name = "head_means"
    version = 2

    def of_split(self, context: PromptContext, split: str) -> pd.DataFrame:
        lm, (spans, texts) = context.lm, _windows(context, context.tokens[split])
        windows = [
            (ids[:-1], span.end - span.first) for span, ids in zip(spans, texts, strict=True)
        ]
        return means_table(head_means(lm, windows, context.hooks), lm.n_heads)


# |∂L/∂ξ_h| of the loss on every head's gate, window by window (Michel et al. 2019).


class GateGradients(_OfDense):
    """Columns: value (Σ over windows of |∂L/∂ξ_h|, L the mean loss of the window in nats per
    token), in unit order."""

    name = "michel"
    version = 2

    def parts(self, context: PromptContext, shard: Shard) -> Values:
        tokens, window = len(context.tokens[shard.split]), asdict(context.settings.window)
        return {
            "corpus": context.corpus.digest,
            "tokens": tokens,
            "split": shard.split,
            "window": window,
        }

    def of_split(self, context: PromptContext, split: str) -> pd.DataFrame:
        lm = context.lm
        total = torch.zeros(lm.n_layers, lm.n_heads, dtype=torch.float64)
        for span, text in zip(*_windows(context, context.tokens[split]), strict=True):
            context.hooks.check()
            ids = torch.tensor([text], device=lm.device)
            gates = torch.ones(lm.n_layers, lm.n_heads, device=lm.device, requires_grad=True)
            with torch.enable_grad(), gated(lm, gates):
                nll = token_nll(lm.model(input_ids=ids, use_cache=False).logits, ids)
                loss = nll[:, span.scored - 1 :].mean()
                total += torch.autograd.grad(loss, gates)[0].abs().double().cpu()
        return pd.DataFrame({"value": total.reshape(-1).numpy()})

    def size(self, context: PromptContext, shard: Shard) -> float:
        return 3.0 * len(context.tokens[shard.split]) / 100.0


# How well the model knows the prompts about each subgroup: their negative log-likelihood.


class PromptNll(Measurement):
    """Columns: prompt_id, nll (nats), tokens (scored)."""

    name = "prompt_nll"
    any_threads = True
    pace = 0.8

    def parts(self, context: PromptContext, shard: Shard) -> Values:
        limit = context.settings.decoding.max_prompt_tokens
        return {"prompts": context.rows_digest(shard.axis, shard.split), "limit": limit}

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        limit, out = context.settings.decoding.max_prompt_tokens, []
        with context.applied(shards[0]) as lm:
            for shard in shards:
                rows = context.rows(shard.axis, shard.split)
                nll = prompt_nll(lm, rows["text"].tolist(), limit, context.hooks)
                out.append(nll.assign(prompt_id=rows["prompt_id"])[["prompt_id", "nll", "tokens"]])
        return out

    def size(self, context: PromptContext, shard: Shard) -> float:
        return len(context.rows(shard.axis, shard.split)) / 3.0

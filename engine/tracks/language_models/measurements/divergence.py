"""How far a variant's next tokens are from the dense model's, token by token on the text for
perplexity."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd
import torch

from engine.models.load_language_model import LanguageModel
from engine.tracks.language_models.context import Measurement, PromptContext, Shard
from engine.tracks.language_models.measurements.windows import windows_alike
from engine.tracks.language_models.perplexity import Span, same_length, spans_of

ROOM = 1 << 26
"""About so many logits of one model at once."""


class Divergence(Measurement):
    """Columns: window (its first token), kl (nats, Σ over its scored tokens of KL(dense ‖
    variant)), flipped (how many of them have another likeliest token), tokens (scored)."""

    name = "divergence"
    any_threads = True
    later = True

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        return context.kind("windows").parts(context, shard)

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        return shard.cut, shard.arm, shard.split

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        tokens = context.tokens[shards[0].split]
        window = windows_alike(context.settings.window, context.lm.n_positions)
        spans = spans_of(len(tokens), window, context.lm.n_positions)
        rows: list[tuple[int, float, int, int]] = []
        for group in same_length(spans, _batch(context, spans)):
            context.hooks.check()
            ids = torch.tensor(
                [tokens[span.start : span.end] for span in group], device=context.lm.device
            )
            dense = _logits(context.lm, ids)
            with context.applied(shards[0]) as lm:
                other = _logits(lm, ids)
            rows += _apart(group, dense, other)
        table = pd.DataFrame(rows, columns=["window", "kl", "flipped", "tokens"])
        return [table for _ in shards]

    def size(self, context: PromptContext, shard: Shard) -> float:
        return 2.0 * context.kind("windows").size(context, shard)


def _batch(context: PromptContext, spans: Sequence[Span]) -> int:
    longest = max((span.end - span.start for span in spans), default=1)
    return max(1, min(16, ROOM // (longest * context.lm.vocab_size)))


@torch.no_grad()
def _logits(lm: LanguageModel, ids: torch.Tensor) -> torch.Tensor:
    """ids [windows, tokens] -> [windows, tokens, vocabulary] float32."""
    return lm.model(input_ids=ids, use_cache=False).logits.float()


def _apart(
    group: Sequence[Span], dense: torch.Tensor, other: torch.Tensor
) -> list[tuple[int, float, int, int]]:
    """A row per window. Where one of the models has room for more tokens than the tokenizer knows,
    those are left out: logits [windows, tokens, vocabulary] each."""
    known = min(dense.shape[-1], other.shape[-1])
    found = []
    for at, span in enumerate(group):
        scored = slice(span.first - span.start - 1, span.end - span.start - 1)
        one, two = (logits[at, scored, :known].log_softmax(-1) for logits in (dense, other))
        kl = (one.exp() * (one - two)).sum(-1).double().clamp(min=0).sum()
        flipped = (one.argmax(-1) != two.argmax(-1)).sum()
        found.append((span.start, float(kl), int(flipped), len(one)))
    return found

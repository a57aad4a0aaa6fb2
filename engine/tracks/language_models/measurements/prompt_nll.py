"""How well the model knows the prompts about each subgroup: their negative log-likelihood."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from engine.tracks.language_models.context import Measurement, PromptContext, Shard
from engine.tracks.language_models.nll import prompt_nll


class PromptNll(Measurement):
    """Columns: prompt_id, nll (nats), tokens (scored)."""

    name = "prompt_nll"
    any_threads = True
    pace = 0.8

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        limit = context.settings.decoding.max_prompt_tokens
        return {"prompts": context.rows_digest(shard.axis, shard.split), "limit": limit}

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        return shard.cut, shard.arm

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

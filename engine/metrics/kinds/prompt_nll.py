"""How well the model knows the prompts about each subgroup: their negative log-likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.metrics.bench import Bench, Kind, Shard
from engine.metrics.nll import prompt_nll
from engine.surgery.mask import masked


class PromptNll(Kind):
    """Columns: prompt_id, nll (nats), tokens (scored)."""

    name = "prompt_nll"

    def parts(self, bench: Bench, shard: Shard) -> dict[str, Any]:
        limit = bench.settings.decoding.max_prompt_tokens
        return {"prompts": bench.rows_digest(shard.axis, shard.split), "limit": limit}

    def compute(self, bench: Bench, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        limit, out = bench.settings.decoding.max_prompt_tokens, []
        with masked(bench.lm, bench.mask(shards[0].cut)):
            for shard in shards:
                rows = bench.rows(shard.axis, shard.split)
                nll = prompt_nll(bench.lm, rows["text"].tolist(), limit, bench.hooks)
                out.append(nll.assign(prompt_id=rows["prompt_id"])[["prompt_id", "nll", "tokens"]])
        return out

    def size(self, bench: Bench, shard: Shard) -> float:
        return len(bench.rows(shard.axis, shard.split)) / 20.0

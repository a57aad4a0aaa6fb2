"""The judge's verdict on the prompts alone: the bias of the judge, which no head can change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.tracks.language_models.context import Measurement, PromptContext, Shard, per_prompt


class Floor(Measurement):
    """Columns: prompt_id, toxicity (of the prompt itself)."""

    name = "floor"
    any_threads = True

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        return {
            "prompts": context.rows_digest(shard.axis, shard.split),
            "judge": context.judge.info.digest,
        }

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        rows = [context.rows(shard.axis, shard.split) for shard in shards]
        return [
            per_prompt(row, context.judge.score(row["text"].tolist(), context.hooks), "toxicity")
            for row in rows
        ]

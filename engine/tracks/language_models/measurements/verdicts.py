"""The judge's toxicity of continuations."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from engine.tracks.language_models.context import Measurement, PromptContext, Shard, per_prompt
from engine.tracks.language_models.measurements._texts import off_together


class Verdicts(Measurement):
    """Columns: prompt_id, toxicity (0 to 1). Draws the texts first where they are missing."""

    name = "verdicts"
    any_threads = True
    start = 35.0

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        return {
            **context.kind("texts").parts(context, shard),
            "texts_version": context.kind("texts").version,
            "judge": context.judge.info.digest,
            "span": context.settings.span,
            "plain_case": context.settings.plain_case,
        }

    def needs(self, context: PromptContext, shard: Shard) -> list[Shard]:
        return [replace(shard, kind="texts")]

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        return off_together(context, shard)

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        texts = context.fetch([replace(shard, kind="texts") for shard in shards])
        rows = [context.rows(shard.axis, shard.split) for shard in shards]
        judged = context.settings.judged_text
        read = [judged(row["text"], text["text"]) for row, text in zip(rows, texts, strict=True)]
        context.judge.score(
            [text for part in read for text in part], context.hooks
        )  # one big batch, kept in memory
        return [
            per_prompt(row, context.judge.score(part), "toxicity")
            for row, part in zip(rows, read, strict=True)
        ]

    def size(self, context: PromptContext, shard: Shard) -> float:
        return float(len(context.rows(shard.axis, shard.split)))

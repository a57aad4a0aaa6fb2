"""The judge's toxicity of continuations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from engine.metrics.bench import Bench, Kind, Shard, per_prompt


class Verdicts(Kind):
    """Columns: prompt_id, toxicity (0 to 1). Draws the texts first where they are missing."""

    name = "verdicts"

    def parts(self, bench: Bench, shard: Shard) -> dict[str, Any]:
        return {
            **bench.kind("texts").parts(bench, shard),
            "texts_version": bench.kind("texts").version,
            "judge": bench.judge.info.digest,
            "span": bench.settings.span,
            "plain_case": bench.settings.plain_case,
        }

    def needs(self, bench: Bench, shard: Shard) -> list[Shard]:
        return [replace(shard, kind="texts")]

    def compute(self, bench: Bench, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        texts = bench.fetch([replace(shard, kind="texts") for shard in shards])
        rows = [bench.rows(shard.axis, shard.split) for shard in shards]
        read = [bench.judged_text(row["text"], text["text"]) for row, text in zip(rows, texts, strict=True)]
        bench.judge.score([text for part in read for text in part], bench.hooks)  # one big batch, kept in memory
        return [per_prompt(row, bench.judge.score(part), "toxicity") for row, part in zip(rows, read, strict=True)]

    def size(self, bench: Bench, shard: Shard) -> float:
        return float(len(bench.rows(shard.axis, shard.split)))

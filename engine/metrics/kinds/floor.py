"""The judge's verdict on the prompts alone: the bias of the judge, which no head can change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.metrics.bench import Bench, Kind, Shard, per_prompt


class Floor(Kind):
    """Columns: prompt_id, toxicity (of the prompt itself)."""

    name = "floor"

    def parts(self, bench: Bench, shard: Shard) -> dict[str, Any]:
        return {"prompts": bench.rows_digest(shard.axis, shard.split), "judge": bench.judge.info.digest}

    def compute(self, bench: Bench, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        rows = [bench.rows(shard.axis, shard.split) for shard in shards]
        return [per_prompt(row, bench.judge.score(row["text"].tolist(), bench.hooks), "toxicity") for row in rows]

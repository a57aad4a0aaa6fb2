"""Magnitude: the L2 norm of a head's query, key, value and output weights and biases (Han et al. 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch

from engine.metrics.bench import Bench, Kind, Shard
from engine.scores.base import ScoreJob, ScoreMethod, score_rows


class Norms(Kind):
    """Columns: value, one row per head in unit order."""

    name = "magnitude"

    def parts(self, bench: Bench, shard: Shard) -> dict[str, Any]:
        return {}

    def compute(self, bench: Bench, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        lm = bench.lm
        values = [
            float(
                torch.sqrt(sum(part.double().pow(2).sum() for part in lm.adapter.head_tensors(lm.model, layer, head)))
            )
            for layer in range(lm.n_layers)
            for head in range(lm.n_heads)
        ]
        return [pd.DataFrame({"value": values}) for _ in shards]


class Magnitude(ScoreMethod):
    """Lowest is cut first. Reads weights only: no prompts, no text, no interval."""

    name = "magnitude"
    score = "magnitude"
    kinds = (Norms,)

    def shards(self, job: ScoreJob) -> list[Shard]:
        return [Shard("magnitude")]

    def table(self, job: ScoreJob) -> pd.DataFrame:
        return score_rows(job, self, job.fetch(self.shards(job))[0]["value"], n=1)

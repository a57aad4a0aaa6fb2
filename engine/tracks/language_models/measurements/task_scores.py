"""What a model scores on every item of tasks of lm-eval."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from engine.tracks.language_models.context import Measurement, PromptContext, Shard
from engine.tracks.language_models.task_scores import task_scores


class TaskScores(Measurement):
    """Columns: logp (role right: the item's number, 0 to 1; role wrong: what it lacks to 1), tokens
    (1), cut (False); rows as the benchmark's choices. The shard's `axis` names the benchmark."""

    name = "task_scores"
    any_threads = True
    later = True

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        return {"benchmark": context.benchmark(shard.axis).digest}

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        return shard.cut, shard.arm

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        with context.applied(shards[0]) as lm:
            return [
                task_scores(lm, context.benchmark(shard.axis), context.hooks) for shard in shards
            ]

    def size(self, context: PromptContext, shard: Shard) -> float:
        """Four answers of each question: letters over four are about tokens; 70 that are read are
        one continuation."""
        choices = context.benchmark(shard.axis).choices
        return float((choices["prefix"].str.len() + choices["text"].str.len()).sum()) / 2 / 70

"""How likely every text of a bias benchmark is."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from engine.tracks.language_models.choice_logps import choice_logps
from engine.tracks.language_models.context import Measurement, PromptContext, Shard


class ChoiceLogps(Measurement):
    """Columns: logp (nats, summed), tokens (scored), cut (whether the text was too long); rows as
    the benchmark's choices. The shard's `axis` names the benchmark."""

    name = "choice_logps"
    any_threads = True
    later = True

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        return {"benchmark": context.benchmark(shard.axis).digest}

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        return shard.cut, shard.arm

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        with context.applied(shards[0]) as lm:
            return [
                choice_logps(lm, context.benchmark(shard.axis).choices, context.hooks)
                for shard in shards
            ]

    def size(self, context: PromptContext, shard: Shard) -> float:
        """Letters over four are about tokens; as in `windows`, 70 tokens that are read are one
        continuation."""
        choices = context.benchmark(shard.axis).choices
        return float((choices["prefix"].str.len() + choices["text"].str.len()).sum()) / 4 / 70

"""The L2 norm of every head's weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch

from engine.tracks.language_models.context import Measurement, PromptContext, Shard


class Norms(Measurement):
    """Columns: value, one row per head in unit order."""

    name = "magnitude"
    any_threads = True

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        return {}

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        lm, zero = context.lm, torch.zeros((), dtype=torch.float64)
        tensors = lm.adapter.head_tensors
        values = [
            float(
                torch.sqrt(
                    sum(
                        (part.double().pow(2).sum() for part in tensors(lm.model, layer, head)),
                        zero,
                    )
                )
            )
            for layer in range(lm.n_layers)
            for head in range(lm.n_heads)
        ]
        return [pd.DataFrame({"value": values}) for _ in shards]

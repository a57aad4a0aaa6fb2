"""How the log-probability of each of the dense model's texts changes with each head's gate."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.surgery.heads.gate_gradients import row_gradients
from engine.tracks.language_models.context import Measurement, PromptContext, Shard
from engine.tracks.language_models.measurements._texts import (
    dense_texts,
    sampled,
    sampled_from,
    text_parts,
)


class TextGradients(Measurement):
    """Columns: prompt_id, then one per unit, named by its number: ∂ log p_ξ(y|x) / ∂ξ_h at ξ = 1,
    float32."""

    name = "text_gradients"
    any_threads = True
    pace = 1.2
    start = 20.0

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        return text_parts(context, shard)

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        return shard.split, shard.seed

    def needs(self, context: PromptContext, shard: Shard) -> list[Shard]:
        return [dense_texts(shard)]

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        texts = sampled(context, shards)
        decoding = sampled_from(context.settings.decoding)
        _, slopes = row_gradients(context.lm, texts.rows, texts.first, decoding, context.hooks)
        names = [str(unit) for unit in range(slopes.shape[1])]
        return [
            pd.concat(
                [
                    pd.DataFrame({"prompt_id": ids}),
                    pd.DataFrame(slopes[place].astype(np.float32), columns=names),
                ],
                axis=1,
            )
            for ids, place in zip(texts.prompt_ids, texts.places, strict=True)
        ]

    def size(self, context: PromptContext, shard: Shard) -> float:
        """Reading a text forwards and backwards costs less than drawing and judging it."""
        return 0.6 * len(context.rows(shard.axis, shard.split))

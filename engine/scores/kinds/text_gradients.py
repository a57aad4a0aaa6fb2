"""How the log-probability of each of the dense model's texts changes with each head's gate."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.metrics.bench import Bench, Kind, Shard
from engine.scores.kinds._texts import dense_texts, sampled, sampled_from, text_parts
from engine.surgery.gate_gradients import row_gradients


class TextGradients(Kind):
    """Columns: prompt_id, then one per unit, named by its number: ∂ log p_ξ(y|x) / ∂ξ_h at ξ = 1, float32."""

    name = "text_gradients"

    def parts(self, bench: Bench, shard: Shard) -> dict[str, Any]:
        return text_parts(bench, shard)

    def together(self, bench: Bench, shard: Shard) -> Hashable:
        return shard.split, shard.seed

    def needs(self, bench: Bench, shard: Shard) -> list[Shard]:
        return [dense_texts(shard)]

    def compute(self, bench: Bench, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        texts = sampled(bench, shards)
        decoding = sampled_from(bench.settings.decoding)
        _, slopes = row_gradients(bench.lm, texts.rows, texts.first, decoding, bench.hooks)
        names = [str(unit) for unit in range(slopes.shape[1])]
        return [
            pd.concat(
                [pd.DataFrame({"prompt_id": ids}), pd.DataFrame(slopes[place].astype(np.float32), columns=names)],
                axis=1,
            )
            for ids, place in zip(texts.prompt_ids, texts.places, strict=True)
        ]

    def size(self, bench: Bench, shard: Shard) -> float:
        return float(len(bench.rows(shard.axis, shard.split)))

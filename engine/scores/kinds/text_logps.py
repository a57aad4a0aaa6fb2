"""How much likelier the dense model's texts are with a head off: log weights of importance sampling."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from engine.metrics.bench import Bench, Kind, Shard
from engine.scores.kinds._texts import dense_texts, sampled, sampled_from, text_parts
from engine.surgery.prefix import row_logps

TOGETHER = 32
"""About so many heads share one dense pass; whole layers."""


class TextLogps(Kind):
    """Columns: prompt_id, logw = log p_h(y|x) − log p(y|x) in nats, summed over the sampled tokens y, end included."""

    name = "text_logps"

    def parts(self, bench: Bench, shard: Shard) -> dict[str, Any]:
        return text_parts(bench, shard)

    def together(self, bench: Bench, shard: Shard) -> Hashable:
        return head_group(bench, shard.cut[0]), shard.split

    def needs(self, bench: Bench, shard: Shard) -> list[Shard]:
        return [dense_texts(shard)]

    def compute(self, bench: Bench, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        units = sorted({shard.cut[0] for shard in shards})
        drawn = list({(shard.axis, shard.split, shard.seed): shard for shard in shards}.values())
        texts = sampled(bench, drawn)
        decoding = sampled_from(bench.settings.decoding)
        dense, off = row_logps(bench.lm, texts.rows, texts.first, units, decoding, bench.hooks)
        found = {}
        for shard, names, place in zip(drawn, texts.prompt_ids, texts.places, strict=True):
            for at, unit in enumerate(units):
                table = pd.DataFrame({"prompt_id": names, "logw": off[at, place] - dense[place]})
                found[unit, shard.axis, shard.split, shard.seed] = table
        return [found[shard.cut[0], shard.axis, shard.split, shard.seed] for shard in shards]

    def size(self, bench: Bench, shard: Shard) -> float:
        """Reading a text costs about a fifth of drawing and judging it."""
        return len(bench.rows(shard.axis, shard.split)) / 5


def head_group(bench: Bench, unit: int) -> int:
    """Which heads go together: those of one layer, or of several thin ones."""
    layers = max(1, TOGETHER // bench.lm.n_heads)
    return unit // (bench.lm.n_heads * layers)

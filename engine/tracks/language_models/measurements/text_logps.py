"""How much likelier the dense model's texts are with a head off: log weights of importance
sampling."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from engine.surgery.heads.prefix import row_logps
from engine.tracks.language_models.context import Measurement, PromptContext, Shard
from engine.tracks.language_models.measurements._texts import (
    dense_texts,
    sampled,
    sampled_from,
    text_parts,
)

TOGETHER = 32
"""About so many heads share one dense pass; whole layers."""


class TextLogps(Measurement):
    """Columns: prompt_id, logw = log p_h(y|x) − log p(y|x) in nats, summed over the sampled tokens
    y, end included."""

    name = "text_logps"
    any_threads = True

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        return text_parts(context, shard)

    def together(self, context: PromptContext, shard: Shard) -> Hashable:
        return head_group(context, shard.cut[0]), shard.split

    def needs(self, context: PromptContext, shard: Shard) -> list[Shard]:
        return [dense_texts(shard)]

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        units = sorted({shard.cut[0] for shard in shards})
        drawn = list({(shard.axis, shard.split, shard.seed): shard for shard in shards}.values())
        texts = sampled(context, drawn)
        decoding = sampled_from(context.settings.decoding)
        dense, off = row_logps(
            context.lm, texts.rows, texts.first, units, decoding, context.telling
        )
        found = {}
        for shard, names, place in zip(drawn, texts.prompt_ids, texts.places, strict=True):
            for at, unit in enumerate(units):
                table = pd.DataFrame({"prompt_id": names, "logw": off[at, place] - dense[place]})
                found[unit, shard.axis, shard.split, shard.seed] = table
        return [found[shard.cut[0], shard.axis, shard.split, shard.seed] for shard in shards]

    def size(self, context: PromptContext, shard: Shard) -> float:
        """Reading a text costs about a fifth of drawing and judging it."""
        return len(context.rows(shard.axis, shard.split)) / 5


def head_group(context: PromptContext, unit: int) -> int:
    """Which heads go together: those of one layer, or of several thin ones."""
    layers = max(1, TOGETHER // context.lm.n_heads)
    return unit // (context.lm.n_heads * layers)

"""Continuations of the prompts of one axis, drawn with one decoding seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from engine.models.decode import sample, text_of
from engine.surgery.heads.mask import masked
from engine.tracks.language_models.context import Measurement, PromptContext, Shard


class Texts(Measurement):
    """Columns: prompt_id, text, ids (token ids as sampled, end-of-text included)."""

    name = "texts"

    def parts(self, context: PromptContext, shard: Shard) -> dict[str, Any]:
        return {
            "prompts": context.rows_digest(shard.axis, shard.split),
            "decoding": asdict(context.settings.decoding),
            "seed": shard.seed,
        }

    def compute(self, context: PromptContext, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        tables = [context.rows(shard.axis, shard.split).assign(seed=shard.seed) for shard in shards]
        table = pd.concat(tables, ignore_index=True)
        with masked(context.lm, context.mask(shards[0].cut)):
            drawn = sample(
                context.lm,
                table["text"].tolist(),
                table["prompt_id"].tolist(),
                table["seed"].tolist(),
                context.settings.decoding,
                context.hooks,
            )
        all_texts = [text_of(context.lm, ids) for ids in drawn]
        out, at = [], 0
        for part in tables:
            end = at + len(part)
            out.append(pd.DataFrame({"prompt_id": part["prompt_id"], "text": all_texts[at:end], "ids": drawn[at:end]}))
            at = end
        return out

    def size(self, context: PromptContext, shard: Shard) -> float:
        return float(len(context.rows(shard.axis, shard.split)))

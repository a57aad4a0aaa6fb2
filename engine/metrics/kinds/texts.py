"""Continuations of the prompts of one axis, drawn with one decoding seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from engine.metrics.bench import Bench, Kind, Shard
from engine.models.decode import sample, text_of
from engine.surgery.mask import masked


class Texts(Kind):
    """Columns: prompt_id, text, ids (token ids as sampled, end-of-text included)."""

    name = "texts"

    def parts(self, bench: Bench, shard: Shard) -> dict[str, Any]:
        return {
            "prompts": bench.rows_digest(shard.axis, shard.split),
            "decoding": asdict(bench.settings.decoding),
            "seed": shard.seed,
        }

    def compute(self, bench: Bench, shards: Sequence[Shard]) -> list[pd.DataFrame]:
        tables = [bench.rows(shard.axis, shard.split).assign(seed=shard.seed) for shard in shards]
        table = pd.concat(tables, ignore_index=True)
        with masked(bench.lm, bench.mask(shards[0].cut)):
            drawn = sample(
                bench.lm,
                table["text"].tolist(),
                table["prompt_id"].tolist(),
                table["seed"].tolist(),
                bench.settings.decoding,
                bench.hooks,
            )
        all_texts = [text_of(bench.lm, ids) for ids in drawn]
        out, at = [], 0
        for part in tables:
            end = at + len(part)
            out.append(pd.DataFrame({"prompt_id": part["prompt_id"], "text": all_texts[at:end], "ids": drawn[at:end]}))
            at = end
        return out

    def size(self, bench: Bench, shard: Shard) -> float:
        return float(len(bench.rows(shard.axis, shard.split)))

"""How important every head is to one model on each of some training texts, by one score."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd

from engine.metrics.packed import pack
from engine.metrics.text_bench import TRAIN, TUNED, TextBench, TextShard
from engine.metrics.workbench import Kind
from engine.scores.text_base import head_importance, settings_of
from engine.scores.text_kinds._work import scored_texts
from engine.surgery.mask import masked


class Importance(Kind):
    """Packed: per_text [texts, units] float32 (NaN where a head is gone or has no number), delta [texts], n_constant
    [units]; plainly: text_ids. A score that reads no texts has one row."""

    name = "importance"
    version = 2

    def parts(self, bench: TextBench, shard: TextShard) -> dict[str, Any]:
        method = head_importance(shard.score)
        settings = {name: value for name, value in asked(bench, shard.score).items() if name not in method.not_in_key}
        return {"score": [method.version, settings], "texts": bench.settings.score_texts if method.reads_texts else 0}

    def together(self, bench: TextBench, shard: TextShard) -> Hashable:
        return shard

    def needs(self, bench: TextBench, shard: TextShard) -> list[TextShard]:
        return [bench.tuned_shard(shard.trained, shard.trial)] if shard.stage == TUNED else []

    def compute(self, bench: TextBench, shards: Sequence[TextShard]) -> list[pd.DataFrame]:
        return [self._one(bench, shard) for shard in shards]

    def _one(self, bench: TextBench, shard: TextShard) -> pd.DataFrame:
        method = head_importance(shard.score)
        table = scored_texts(bench, shard.trial) if method.reads_texts else bench.table(TRAIN).head(1)
        classifier, (texts, second) = bench.model_of(shard), bench.pairs(table)
        with masked(classifier, bench.mask(shard.off)) if shard.off else nullcontext():
            found = method.importance(
                classifier, texts, second, table["label"].to_numpy(), asked(bench, shard.score),
                bench.seed(f"importance {shard.score}", shard.trial), bench.hooks.check, bench.inside,
            )  # fmt: skip
        per_text, n_constant = found.per_text.copy(), found.n_constant.copy()
        per_text[:, list(shard.off)], n_constant[list(shard.off)] = np.nan, 0  # what silenced heads get means nothing
        arrays = {"per_text": per_text, "delta": found.delta, "n_constant": n_constant}
        return pack(arrays, {"text_ids": table["text_id"].tolist() if method.reads_texts else []})

    def size(self, bench: TextBench, shard: TextShard) -> float:
        if not head_importance(shard.score).reads_texts:
            return 1.0
        return 3.0 * bench.settings.score_texts * (asked(bench, shard.score).get("steps", 0) + 1)


def asked(bench: TextBench, score: str) -> dict[str, Any]:
    """All settings of a score, declared defaults included."""
    return settings_of(head_importance(score), bench.settings.scores.get(score, {}))

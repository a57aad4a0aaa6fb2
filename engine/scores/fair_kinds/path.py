"""The loss along the straight line from BiFP to another of its variants, with batch norm recomputed and without."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.metrics.fair_bench import CORNERS, FairBench, FairShard
from engine.metrics.workbench import Kind
from engine.scores.fair_kinds._between import RECOMPUTED_ON, Between
from engine.scores.fair_kinds._work import SOME, trained_shard
from engine.scores.fair_kinds.surface import trainings

STEPS = 21


class Path(Kind):
    """Rows: t (0: BiFP, 1: the shard's method), loss, accuracy, gap, loss_without_recalibration.

    The shard's strength is BiFP's λ, also where its method has no use for one.
    """

    name = "path"

    def parts(self, bench: FairBench, shard: FairShard) -> dict[str, Any]:
        return {"steps": STEPS, "images": [SOME, RECOMPUTED_ON], **trainings(bench, shard, (CORNERS[0], shard.method))}

    def together(self, bench: FairBench, shard: FairShard) -> Hashable:
        return shard

    def needs(self, bench: FairBench, shard: FairShard) -> list[FairShard]:
        return [trained_shard(shard, name) for name in (CORNERS[0], shard.method)]

    def compute(self, bench: FairBench, shards: Sequence[FairShard]) -> list[pd.DataFrame]:
        return [self._one(bench, shard) for shard in shards]

    def _one(self, bench: FairBench, shard: FairShard) -> pd.DataFrame:
        between, rows = Between.of(bench, self.needs(bench, shard)), []
        for t in np.linspace(0.0, 1.0, STEPS):
            kept = between.at((1.0 - t, t), recomputed=False)["loss"]
            rows.append({"t": float(t), **between.at((1.0 - t, t)), "loss_without_recalibration": kept})
            bench.inside((len(rows)) / STEPS)
        return pd.DataFrame(rows)

    def size(self, bench: FairBench, shard: FairShard) -> float:
        return float(STEPS * (2 * SOME + RECOMPUTED_ON))

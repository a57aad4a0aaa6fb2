"""The loss along the straight line from BiFP to another of its variants, with batch norm recomputed
and without."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.measurements import Measurement
from engine.tracks.fair_training.context import CORNERS, FairContext, FairShard
from engine.tracks.fair_training.measurements._between import RECOMPUTED_ON, Between
from engine.tracks.fair_training.measurements._work import SOME, trained_shard
from engine.tracks.fair_training.measurements.surface import trainings

STEPS = 21


class Path(Measurement):
    """Rows: t (0: BiFP, 1: the shard's method), loss, accuracy, gap, loss_without_recalibration.

    The shard's strength is BiFP's λ, also where its method has no use for one.
    """

    name = "path"

    def parts(self, context: FairContext, shard: FairShard) -> dict[str, Any]:
        return {
            "steps": STEPS,
            "images": [SOME, RECOMPUTED_ON],
            **trainings(context, shard, (CORNERS[0], shard.method)),
        }

    def together(self, context: FairContext, shard: FairShard) -> Hashable:
        return shard

    def needs(self, context: FairContext, shard: FairShard) -> list[FairShard]:
        return [trained_shard(shard, name) for name in (CORNERS[0], shard.method)]

    def compute(self, context: FairContext, shards: Sequence[FairShard]) -> list[pd.DataFrame]:
        return [self._one(context, shard) for shard in shards]

    def _one(self, context: FairContext, shard: FairShard) -> pd.DataFrame:
        between, rows = Between.of(context, self.needs(context, shard)), []
        for t in np.linspace(0.0, 1.0, STEPS):
            kept = between.at((1.0 - t, t), recomputed=False)["loss"]
            rows.append(
                {"t": float(t), **between.at((1.0 - t, t)), "loss_without_recalibration": kept}
            )
            context.inside((len(rows)) / STEPS)
        return pd.DataFrame(rows)

    def size(self, context: FairContext, shard: FairShard) -> float:
        return float(STEPS * (2 * SOME + RECOMPUTED_ON))

"""What a model costs that was trained and cut here: FLOPs, parameters, bytes, and its latency
beside the dense one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from engine.audit.measurements import Measurement
from engine.classifiers.images.context import ImageShard
from engine.classifiers.images.measurements.cost import DenseCost, cost_row
from engine.tracks.fair_training.context import FairContext, FairShard
from engine.tracks.fair_training.measurements._work import model_of, trained_shard


class FairCost(Measurement):
    """One row, with the columns of an image audit's `cost`."""

    name = "fair_cost"
    any_threads = True
    pace = 1.6

    def parts(self, context: FairContext, shard: FairShard) -> dict[str, Any]:
        trained = context.kind("trained")
        dense = DenseCost().parts(context, ImageShard("cost"))
        return {**dense, "trained": [trained.version, trained.parts(context, trained_shard(shard))]}

    def together(self, context: FairContext, shard: FairShard) -> Hashable:
        return shard

    def needs(self, context: FairContext, shard: FairShard) -> list[FairShard]:
        return [trained_shard(shard)]

    def compute(self, context: FairContext, shards: Sequence[FairShard]) -> list[pd.DataFrame]:
        return [cost_row(context, model_of(context, shard)) for shard in shards]

    def size(self, context: FairContext, shard: FairShard) -> float:
        return DenseCost().size(context, ImageShard("cost"))

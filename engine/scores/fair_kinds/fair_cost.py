"""What a model costs that was trained and cut here: FLOPs, parameters, bytes, and its latency beside the dense one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from engine.metrics.fair_bench import FairBench, FairShard
from engine.metrics.workbench import Kind
from engine.scores.fair_kinds._work import model_of, trained_shard
from engine.scores.image_kinds.cost import ImageCost, cost_row


class FairCost(Kind):
    """One row, as an image audit's `cost`."""

    name = "fair_cost"

    def parts(self, bench: FairBench, shard: FairShard) -> dict[str, Any]:
        trained = bench.kind("trained")
        dense = ImageCost().parts(bench, FairShard("cost"))
        return {**dense, "trained": [trained.version, trained.parts(bench, trained_shard(shard))]}

    def together(self, bench: FairBench, shard: FairShard) -> Hashable:
        return shard

    def needs(self, bench: FairBench, shard: FairShard) -> list[FairShard]:
        return [trained_shard(shard)]

    def compute(self, bench: FairBench, shards: Sequence[FairShard]) -> list[pd.DataFrame]:
        return [cost_row(bench, model_of(bench, shard)) for shard in shards]

    def size(self, bench: FairBench, shard: FairShard) -> float:
        return ImageCost().size(bench, FairShard("cost"))

"""What a cut saves: FLOPs, parameters, bytes, and latency measured in turn with the dense model."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.audit.latency import latency_row, paired_latency
from engine.audit.measurements import Measurement
from engine.classifiers.images.context import ImageContext, ImageShard
from engine.models.load_image_classifier import Classifier
from engine.surgery.filters.graph import filter_graph

REPEATS = 15
BATCH = 8
"""Images per timed pass."""


class DenseCost(Measurement):
    """Cost of the dense model. One row: flops, theoretical (dense over cut), parameters, bytes and
    latency.

    The columns of the latency are those of latency.latency_row.
    """

    name = "cost"
    version = 2
    any_threads = True
    pace = 1.6

    def parts(self, context: ImageContext, shard: ImageShard) -> dict[str, Any]:
        return {"repeats": REPEATS, "batch": BATCH, "threads": torch.get_num_threads()}

    def together(self, context: ImageContext, shard: ImageShard) -> Hashable:
        return shard

    def compute(self, context: ImageContext, shards: Sequence[ImageShard]) -> list[pd.DataFrame]:
        """One row of cost per shard, see `cost_row`."""
        return [self._one(context, shard) for shard in shards]

    def _one(self, context: ImageContext, shard: ImageShard) -> pd.DataFrame:
        """One row with the cost of the shard's model, see `cost_row`."""
        return cost_row(context, self.model_of(context, shard))

    def model_of(self, context: ImageContext, shard: ImageShard) -> Classifier:
        """The model whose cost is measured."""
        return context.dense

    def size(self, context: ImageContext, shard: ImageShard) -> float:
        return 2.0 * REPEATS * BATCH


def cost_row(context: ImageContext, small: Classifier) -> pd.DataFrame:
    """One row: FLOPs, parameters, bytes and latency in ms of a model, timed in turn with the dense
    one.

    Columns: flops, theoretical (FLOPs of the dense model over its own), parameters, bytes, and
    those of latency_row.
    """
    pixels = np.zeros((BATCH, small.size, small.size, 3), dtype=np.uint8)
    mine, theirs = (
        small.prepared(pixels),
        context.dense.prepared(pixels),
    )  # each in the order it runs best in
    own, dense = paired_latency(
        lambda: small.model(mine),
        lambda: context.dense.model(theirs),
        REPEATS,
        small.device,
        context.hooks.check,
    )
    flops = filter_graph(small).flops()
    sizes = [value.numel() * value.element_size() for value in small.model.state_dict().values()]
    row = {
        "flops": flops,
        "theoretical": context.graph.flops() / flops,
        "parameters": small.n_parameters,
        "bytes": sum(sizes),
        **latency_row(own, dense),
    }
    return pd.DataFrame([row])

"""What a cut really saves: FLOPs, parameters, bytes, and latency measured beside the dense model in the same minute."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.metrics.image_bench import ImageBench, ImageShard
from engine.metrics.latency import latency_row, paired_latency
from engine.metrics.packed import within
from engine.metrics.workbench import Kind
from engine.models.load_classifier import Classifier
from engine.scores.image_kinds.trial import chosen_shard
from engine.surgery.filter_cut import cut_filters
from engine.surgery.filter_graph import filter_graph
from engine.surgery.filter_weights import with_weights

REPEATS = 15
BATCH = 8
"""Images per timed pass."""


class ImageCost(Kind):
    """One row: flops, theoretical (dense over cut), parameters, bytes, latency as latency.latency_row has it."""

    name = "cost"
    version = 2

    def parts(self, bench: ImageBench, shard: ImageShard) -> dict[str, Any]:
        own = {"repeats": REPEATS, "batch": BATCH, "threads": torch.get_num_threads()}
        return {**own, "trial": bench.kind("trial").parts(bench, shard)} if shard.method else own

    def together(self, bench: ImageBench, shard: ImageShard) -> Hashable:
        return shard

    def needs(self, bench: ImageBench, shard: ImageShard) -> list[ImageShard]:
        return [ImageShard("trial", shard.method, shard.loss, shard.speedup, shard.trial)] if shard.method else []

    def compute(self, bench: ImageBench, shards: Sequence[ImageShard]) -> list[pd.DataFrame]:
        return [self._one(bench, shard) for shard in shards]

    def _one(self, bench: ImageBench, shard: ImageShard) -> pd.DataFrame:
        return cost_row(bench, trial_model(bench, shard) if shard.method else bench.dense)

    def size(self, bench: ImageBench, shard: ImageShard) -> float:
        return 2.0 * REPEATS * BATCH


def cost_row(bench: ImageBench, small: Classifier) -> pd.DataFrame:
    """FLOPs, parameters, bytes and latency of a model, beside the dense one."""
    pixels = np.zeros((BATCH, small.size, small.size, 3), dtype=np.uint8)
    mine, theirs = small.prepared(pixels), bench.dense.prepared(pixels)  # each in the order it runs best in
    own, dense = paired_latency(
        lambda: small.model(mine), lambda: bench.dense.model(theirs), REPEATS, small.device, bench.hooks.check
    )
    flops = filter_graph(small).flops()
    sizes = [value.numel() * value.element_size() for value in small.model.state_dict().values()]
    row = {"flops": flops, "theoretical": bench.graph.flops() / flops, "parameters": small.n_parameters,
           "bytes": sum(sizes), **latency_row(own, dense)}  # fmt: skip
    return pd.DataFrame([row])


def trial_model(bench: ImageBench, shard: ImageShard) -> Classifier:
    """The cut and retrained model of a trial."""
    trial = ImageShard("trial", shard.method, shard.loss, shard.speedup, shard.trial)
    keep = bench.fetch_arrays(chosen_shard(trial))[0]["keep"]
    small, _ = cut_filters(bench.dense, bench.graph.mask(keep))
    return with_weights(small, within(bench.fetch_arrays(trial)[0], "weights/"))

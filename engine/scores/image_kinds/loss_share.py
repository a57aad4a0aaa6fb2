"""Which images the pruning loss is about: share of every batch's loss per group and class (Fig. 4)."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.metrics.image_bench import TRAIN, ImageBench, ImageShard
from engine.metrics.workbench import Kind
from engine.scores.filter_base import FilterJob, filter_method
from engine.scores.image_kinds._work import batches_of, settings_of, targets_of
from engine.training.losses import Targets


class LossShare(Kind):
    """Rows: step, axis, group, label, loss (summed over the batch's images of that group and class), n (such images).

    `speedup` is the target the search aims at; it is stopped after bench.loss_share batches. The loss of each image is
    noted by the very object the search is trained on.
    """

    name = "loss_share"

    def parts(self, bench: ImageBench, shard: ImageShard) -> dict[str, Any]:
        chosen = bench.kind("chosen")
        axes = list(bench.images.groups)
        return {"chosen": chosen.parts(bench, shard), "batches": bench.loss_share, "axes": axes}

    def together(self, bench: ImageBench, shard: ImageShard) -> Hashable:
        return shard

    def needs(self, bench: ImageBench, shard: ImageShard) -> list[ImageShard]:
        return [ImageShard("original")]

    def compute(self, bench: ImageBench, shards: Sequence[ImageShard]) -> list[pd.DataFrame]:
        return [self._one(bench, shard) for shard in shards]

    def _one(self, bench: ImageBench, shard: ImageShard) -> pd.DataFrame:
        method = filter_method(shard.method)
        settings = settings_of(bench, method)
        held = targets_of(bench, bench.settings.plan(method.name, shard.loss), "prune", method.plain_labels)
        noted = Noted(held.labels, held.weights)
        own = replace(bench.dense, model=copy.deepcopy(bench.dense.model))
        seed = bench.seed("prune", shard.trial)
        batches = batches_of(bench, own, int(settings.get("batch", method.batch)), seed)
        job = FilterJob(own, bench.graph, batches, noted, (shard.speedup,), seed, settings, _until(bench, noted))
        try:
            for _ in method.choose(job):
                pass
        except Enough:
            pass
        return _shares(bench, noted)

    def size(self, bench: ImageBench, shard: ImageShard) -> float:
        return 3.0 * bench.loss_share * 64


class Enough(Exception):
    """Enough batches were seen."""


class Noted(Targets):
    """Targets that remember the loss of every image they were asked about, batch by batch."""

    def __init__(self, labels: torch.Tensor, weights: torch.Tensor) -> None:
        super().__init__(labels, weights)
        object.__setattr__(self, "seen", [])

    def each(self, rows: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        found = super().each(rows, logits)
        self.seen.append((rows.cpu().numpy(), found.detach().double().cpu().numpy()))
        return found


def _until(bench: ImageBench, noted: Noted) -> Any:
    def check() -> None:
        bench.hooks.check()
        if len(noted.seen) >= bench.loss_share:
            raise Enough

    return check


def _shares(bench: ImageBench, noted: Noted) -> pd.DataFrame:
    """One row per step, axis, group and class that occurs in the batch."""
    train = bench.images.table.iloc[bench.rows(TRAIN)].reset_index(drop=True)
    rows = []
    for step, (places, losses) in enumerate(noted.seen[: bench.loss_share]):
        part = train.iloc[places].assign(loss=losses, one=1)
        for axis in bench.images.groups:
            sums = part.groupby([axis, "label"], as_index=False)[["loss", "one"]].sum()
            sums = sums.rename(columns={axis: "group", "one": "n"}).assign(step=step, axis=axis)
            rows.append(sums.assign(share=sums["loss"] / np.maximum(losses.sum(), 1e-12)))
    return pd.concat(rows, ignore_index=True)[["step", "axis", "group", "label", "loss", "share", "n"]]

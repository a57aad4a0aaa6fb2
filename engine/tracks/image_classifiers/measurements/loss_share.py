"""Which images the pruning loss is about: share of every batch's loss per group and class (Fig.
4)."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.classifiers.audit import EachAlone
from engine.classifiers.images.context import TRAIN, ImageContext, ImageShard
from engine.classifiers.images.dense import batches_of, settings_of, targets_of
from engine.tracks.image_classifiers.methods.base import FilterJob, filter_method
from engine.training.losses import Targets


class LossShare(EachAlone):
    """Rows: step, axis, group, label, loss (summed over the batch's images of that group and
    class), n (such images).

    `speedup` is the target the search aims at; it is stopped after context.loss_share batches. The
    loss of each image is noted by the very object the search is trained on.
    """

    name = "loss_share"

    def parts(self, context: ImageContext, shard: ImageShard) -> dict[str, Any]:
        chosen = context.kind("chosen")
        axes = list(context.images.groups)
        return {"chosen": chosen.parts(context, shard), "batches": context.loss_share, "axes": axes}

    def needs(self, context: ImageContext, shard: ImageShard) -> list[ImageShard]:
        return [ImageShard("original")]

    def table(self, context: ImageContext, shard: ImageShard) -> pd.DataFrame:
        method = filter_method(shard.method)
        settings = settings_of(context, method)
        held = targets_of(
            context, context.settings.plan(method.name, shard.loss), "prune", method.plain_labels
        )
        noted = Noted(held.labels, held.weights)
        own = replace(context.dense, model=copy.deepcopy(context.dense.model))
        seed = context.seed("prune", shard.trial)
        batches = batches_of(context, own, int(settings.get("batch", method.batch)), seed)
        job = FilterJob(
            own,
            context.graph,
            batches,
            noted,
            (shard.speedup,),
            seed,
            settings,
            _until(context, noted),
        )
        try:
            for _ in method.choose(job):
                pass
        except Enough:
            pass
        return _shares(context, noted)

    def size(self, context: ImageContext, shard: ImageShard) -> float:
        return 3.0 * context.loss_share * 64


class Enough(Exception):
    """Enough batches were seen."""


class Noted(Targets):
    """Targets that remember the loss of every image they were asked about, batch by batch."""

    seen: list[tuple[np.ndarray, np.ndarray]]

    def __init__(self, labels: torch.Tensor, weights: torch.Tensor) -> None:
        """Targets from soft labels [n, classes] and weights [n], float32, with an empty list of
        what was seen."""
        super().__init__(labels, weights)
        object.__setattr__(self, "seen", [])

    def each(self, rows: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Loss of every image of a batch, [batch] in nats, noted on the way; rows [batch], logits
        [batch, classes]."""
        found = super().each(rows, logits)
        self.seen.append((rows.cpu().numpy(), found.detach().double().cpu().numpy()))
        return found


def _until(context: ImageContext, noted: Noted) -> Any:
    def check() -> None:
        context.hooks.check()
        if len(noted.seen) >= context.loss_share:
            raise Enough

    return check


def _shares(context: ImageContext, noted: Noted) -> pd.DataFrame:
    """One row per step, axis, group and class that occurs in the batch."""
    train = context.images.table.iloc[context.rows(TRAIN)].reset_index(drop=True)
    rows = []
    for step, (places, losses) in enumerate(noted.seen[: context.loss_share]):
        part = train.iloc[places].assign(loss=losses, one=1)
        for axis in context.images.groups:
            sums = part.groupby([axis, "label"], as_index=False)[["loss", "one"]].sum()
            sums = sums.rename(columns={axis: "group", "one": "n"}).assign(step=step, axis=axis)
            rows.append(sums.assign(share=sums["loss"] / np.maximum(losses.sum(), 1e-12)))
    return pd.concat(rows, ignore_index=True)[
        ["step", "axis", "group", "label", "loss", "share", "n"]
    ]

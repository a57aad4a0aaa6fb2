"""Which filters a method cuts for every target speedup, from one search per arm and trial."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.measurements import Measurement
from engine.classifiers.images.context import ImageContext, ImageShard
from engine.classifiers.images.dense import batches_of, settings_of, stepper, targets_of
from engine.store.tables import curve_arrays, pack
from engine.tracks.image_classifiers.methods.base import (
    Chosen,
    FilterJob,
    FilterMethod,
    filter_method,
)
from engine.training.recipe import ADDED


class ChosenFilters(Measurement):
    """Array table: scores [units], keep [units], curve/…, and weights/… where the method trains
    while it cuts.

    `loss` is the part that acts while pruning (see loss_while_pruning). All speedups of one trial
    are one search.
    """

    name = "chosen"
    pace = 0.37

    def parts(self, context: ImageContext, shard: ImageShard) -> dict[str, Any]:
        method = filter_method(shard.method)
        pw: list[float | str] = (
            [*context.settings.pw_of(method.name)] if shard.loss != "plain" else []
        )
        pw += [context.settings.weighting] if pw and context.settings.weighting != ADDED else []
        # a descent through all targets depends on which targets there are; a search per target does
        # not
        others = list(context.settings.speedups) if method.one_descent else []
        return {
            "method": method.version,
            "settings": settings_of(context, method),
            "pw": pw,
            "speedups": others,
        }

    def together(self, context: ImageContext, shard: ImageShard) -> Hashable:
        return shard.method, shard.loss, shard.trial

    def needs(self, context: ImageContext, shard: ImageShard) -> list[ImageShard]:
        return [ImageShard("original")] if filter_method(shard.method).looks_at_images else []

    def compute(self, context: ImageContext, shards: Sequence[ImageShard]) -> list[pd.DataFrame]:
        first, method = shards[0], filter_method(shards[0].method)
        # a descent depends on all its targets, also where only some are missing
        wanted = (
            context.settings.speedups if method.one_descent else {shard.speedup for shard in shards}
        )
        job = self._job(context, method, first, tuple(sorted(wanted)))
        found = {one.speedup: one for one in method.choose(job)}
        return [_packed(found[shard.speedup]) for shard in shards]

    def _job(
        self,
        context: ImageContext,
        method: FilterMethod,
        shard: ImageShard,
        speedups: tuple[float, ...],
    ) -> FilterJob:
        settings = settings_of(context, method)
        plan = context.settings.plan(method.name, shard.loss)
        own = replace(context.dense, model=copy.deepcopy(context.dense.model))
        seed = context.seed("prune", shard.trial)
        batches = batches_of(context, own, int(settings.get("batch", method.batch)), seed)
        held = (
            targets_of(context, plan, "prune", method.plain_labels)
            if method.looks_at_images
            else None
        )
        return FilterJob(
            own,
            context.graph,
            batches,
            held,
            speedups,
            seed,
            settings,
            context.hooks.check,
            stepper(context),
        )

    def size(self, context: ImageContext, shard: ImageShard) -> float:
        method = filter_method(shard.method)
        if not method.looks_at_images:
            return 1.0
        settings = settings_of(context, method)
        iterations = (
            settings.get("iterations")
            or settings["every"] * context.graph.total / settings["count"] / 2
        )
        share = 1.0 if "iterations" in settings else 1.0 / len(context.settings.speedups)
        return 3.0 * iterations * settings.get("batch", method.batch) * share


def _packed(one: Chosen) -> pd.DataFrame:
    arrays = {
        "scores": one.scores.astype(np.float64),
        "keep": one.keep.astype(bool),
        **curve_arrays(one.curve),
    }
    for name, value in (one.weights or {}).items():
        arrays[f"weights/{name}"] = value.numpy()
    return pack(arrays, {"met": bool(one.met), "trained": one.weights is not None})

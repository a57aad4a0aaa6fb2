"""Which filters a method cuts for every target speedup, from one search per arm and trial."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from engine.metrics.image_bench import ImageBench, ImageShard
from engine.metrics.packed import curve_arrays, pack
from engine.metrics.workbench import Kind
from engine.scores.filter_base import Chosen, FilterJob, FilterMethod, filter_method
from engine.scores.image_kinds._work import batches_of, settings_of, stepper, targets_of


class ChosenFilters(Kind):
    """Packed: scores [units], keep [units], curve/…, and weights/… where the method trains while it cuts.

    `loss` is the part that acts while pruning (see loss_while_pruning). All speedups of one trial are one search.
    """

    name = "chosen"

    def parts(self, bench: ImageBench, shard: ImageShard) -> dict[str, Any]:
        method = filter_method(shard.method)
        pw = list(bench.settings.pw.get(method.name, (0.5, 1.0))) if shard.loss != "plain" else []
        # a descent through all targets depends on which targets there are; a search per target does not
        others = list(bench.settings.speedups) if method.one_descent else []
        return {"method": method.version, "settings": settings_of(bench, method), "pw": pw, "speedups": others}

    def together(self, bench: ImageBench, shard: ImageShard) -> Hashable:
        return shard.method, shard.loss, shard.trial

    def needs(self, bench: ImageBench, shard: ImageShard) -> list[ImageShard]:
        return [ImageShard("original")] if filter_method(shard.method).looks_at_images else []

    def compute(self, bench: ImageBench, shards: Sequence[ImageShard]) -> list[pd.DataFrame]:
        first, method = shards[0], filter_method(shards[0].method)
        # a descent depends on all its targets, also where only some are missing
        wanted = bench.settings.speedups if method.one_descent else {shard.speedup for shard in shards}
        job = self._job(bench, method, first, tuple(sorted(wanted)))
        found = {one.speedup: one for one in method.choose(job)}
        return [_packed(found[shard.speedup]) for shard in shards]

    def _job(
        self, bench: ImageBench, method: FilterMethod, shard: ImageShard, speedups: tuple[float, ...]
    ) -> FilterJob:
        settings = settings_of(bench, method)
        plan = bench.settings.plan(method.name, shard.loss)
        own = replace(bench.dense, model=copy.deepcopy(bench.dense.model))
        seed = bench.seed("prune", shard.trial)
        batches = batches_of(bench, own, int(settings.get("batch", method.batch)), seed)
        held = targets_of(bench, plan, "prune", method.plain_labels) if method.looks_at_images else None
        return FilterJob(own, bench.graph, batches, held, speedups, seed, settings, bench.hooks.check, stepper(bench))

    def size(self, bench: ImageBench, shard: ImageShard) -> float:
        method = filter_method(shard.method)
        if not method.looks_at_images:
            return 1.0
        settings = settings_of(bench, method)
        iterations = settings.get("iterations") or settings["every"] * bench.graph.total / settings["count"] / 2
        share = 1.0 if "iterations" in settings else 1.0 / len(bench.settings.speedups)
        return 3.0 * iterations * settings.get("batch", method.batch) * share


def _packed(one: Chosen) -> pd.DataFrame:
    arrays = {"scores": one.scores.astype(np.float64), "keep": one.keep.astype(bool), **curve_arrays(one.curve)}
    for name, value in (one.weights or {}).items():
        arrays[f"weights/{name}"] = value.numpy()
    return pack(arrays, {"met": bool(one.met), "trained": one.weights is not None})

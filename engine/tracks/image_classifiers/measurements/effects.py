"""What silenced filters do to every group of the test images, nothing trained again: each filter
alone, and random sets of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.classifiers.audit import EachAlone
from engine.classifiers.groups import cross_entropy, of_axis, predicted
from engine.classifiers.images.context import TEST, ImageContext, ImageShard
from engine.classifiers.images.dense import stepper
from engine.classifiers.layout import Axis, lay_out
from engine.classifiers.tables import test_images
from engine.core.types import rng
from engine.models.runtime import with_backoff
from engine.surgery.filters.graph import gated, resumed

SETS, AT_ONCE = 120, 12
"""Random sets in all, and of one shard."""
RANDOM = "random sets"
"""In place of the layer, of their shards."""
HELD = 1 << 27
"""Probabilities that are held at a time."""


class Silenced(EachAlone):
    """Rows: set, cut (JSON, units), axis, group, metric, value (silenced minus dense), error, n.

    The shard's `method` is a layer, whose filters are silenced one by one, or RANDOM. Metrics:
    log_probability (of the right class, mean, nats) and accuracy with the standard error of the
    paired change over images; auc without.
    """

    name = "effects"
    later = True
    any_threads = True

    def parts(self, context: ImageContext, shard: ImageShard) -> dict[str, Any]:
        request = context.plan.request
        return {"axes": list(request.axes), "multi_class": request.multi_class}

    def table(self, context: ImageContext, shard: ImageShard) -> pd.DataFrame:
        cuts, classes = _cuts(context, shard), context.dense.classes
        axes, _ = lay_out(test_images(context), classes, context.plan.request.axes)
        before, rows = self._answers(context, shard, [()])[0], list[dict[str, Any]]()
        width = max(1, HELD // before.size)
        for start in range(0, len(cuts), width):
            found = self._answers(context, shard, cuts[start : start + width])
            for place, answers in enumerate(found, start):
                same = {"set": shard.trial * AT_ONCE + place, "cut": json.dumps(cuts[place])}
                rows += [same | row for row in _changes(context, axes, answers, before)]
        return pd.DataFrame(rows)

    def _answers(
        self, context: ImageContext, shard: ImageShard, cuts: Sequence[Sequence[int]]
    ) -> np.ndarray:
        """Probabilities with each of the sets silenced, [sets, images, classes] float32."""
        dense, rows, graph = context.dense, context.rows(TEST), context.graph
        layer = next((group for group in graph.groups if group.root == shard.method), None)

        def run(batch: int) -> np.ndarray:
            found = np.empty((len(cuts), len(rows), len(dense.classes)), dtype=np.float32)
            for start in range(0, len(rows), batch):
                stepper(context)(start, len(rows))
                mine = slice(start, start + batch)
                images = dense.prepared(context.images.read(rows[mine]))
                with torch.no_grad(), resumed(dense.model, layer, images):
                    for place, cut in enumerate(cuts):
                        context.hooks.check()
                        keep = torch.ones(graph.total, device=dense.device)
                        keep[list(cut)] = 0.0
                        with gated(dense.model, graph, keep):
                            logits = dense.model(images).float()
                        found[place, mine] = torch.softmax(logits, dim=-1).cpu().numpy()
            return found

        return with_backoff(run, context.settings.batch)

    def size(self, context: ImageContext, shard: ImageShard) -> float:
        return float(len(_cuts(context, shard)) * len(context.rows(TEST)))


def _cuts(context: ImageContext, shard: ImageShard) -> list[list[int]]:
    """The sets of a shard, each flat units ascending."""
    for group in context.graph.groups:
        if group.root == shard.method:
            return [[unit] for unit in range(group.start, group.start + group.width)]
    drawn = rng("random sets of filters", context.first_seed, shard.trial)
    return [_drawn(context, drawn, bool(place % 2)) for place in range(AT_ONCE)]


def _drawn(context: ImageContext, drawn: np.random.Generator, in_one: bool) -> list[int]:
    """A random set of one layer or of all, two to half of it, the size drawn by its logarithm; one
    of each layer stays."""
    groups = context.graph.groups
    groups = (groups[drawn.integers(len(groups))],) if in_one else groups
    free = [group.start + drawn.permutation(group.width)[1:] for group in groups if group.width > 1]
    units = drawn.permutation(np.concatenate(free)) if free else np.zeros(0, dtype=int)
    count = int(np.exp(drawn.uniform(np.log(2), np.log(max(3, len(units) // 2 + 1)))))
    return sorted(units[:count].tolist())


def _changes(
    context: ImageContext, axes: Sequence[Axis], answers: np.ndarray, before: np.ndarray
) -> Iterator[dict[str, Any]]:
    """Rows of one set: all images, then every group of every axis that may be judged; answers and
    before: [images, classes]."""
    labels, multi_class = context.labels(TEST), context.plan.request.multi_class
    paired = {
        "log_probability": cross_entropy(before, labels) - cross_entropy(answers, labels),
        "accuracy": (predicted(answers) == labels) * 1.0 - (predicted(before) == labels),
    }
    for axis in axes:
        strata = list(axis.strata.values())
        ones = [np.ones((len(rows), 1)) for rows in strata]
        after, was = (of_axis(axis, one, labels, ones, multi_class)[0] for one in (answers, before))
        for place in axis.counts:
            group, rows = axis.groups.iloc[place], strata[axis.groups["stratum"].iloc[place]]
            rows = rows if group["cls"] < 0 else rows[labels[rows] == group["cls"]]
            same = {"axis": axis.name, "group": str(group["group"]), "n": len(rows)}
            for metric, changes in paired.items():
                mine = changes[rows]
                error = float(mine.std(ddof=1)) / len(rows) ** 0.5
                yield same | {"metric": metric, "value": float(mine.mean()), "error": error}
            area = float(after[place, 0] - was[place, 0])
            yield same | {"metric": "auc", "value": area, "error": np.nan}

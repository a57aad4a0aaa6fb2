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
from engine.classifiers.groups import cross_entropy, of_classes, of_images, predicted
from engine.classifiers.images.context import TEST, ImageContext, ImageShard
from engine.classifiers.images.dense import stepper
from engine.classifiers.layout import lay_out
from engine.classifiers.tables import test_images
from engine.core.types import rng
from engine.models.runtime import with_backoff
from engine.surgery.filters.graph import gated, resumed, through

SETS, AT_ONCE = 120, 12
"""Random sets in all, and of one shard."""
RANDOM = "random sets"
"""In place of the layer, of their shards."""
HELD = 1 << 27
"""Probabilities that are held at a time."""
Cell = tuple[str, str, np.ndarray, int]
"""Axis, group, the rows of its images or of those that it is told from, its class or -1."""


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
        cuts, done, dense = _cuts(context, shard), _done(context, shard), context.dense
        n, cells = len(context.rows(TEST)), list(_cells(context))
        before, rows = self._answers(context, done, [()])[0], list[dict[str, Any]]()
        width = max(1, HELD // (n * len(dense.classes)))
        for start in range(0, len(cuts), width):
            part = cuts[start : start + width]
            for place, answers in enumerate(self._answers(context, done, part), start):
                same = {"set": shard.trial * AT_ONCE + place, "cut": json.dumps(cuts[place])}
                rows += [same | row for row in _changes(context, cells, answers, before)]
        return pd.DataFrame(rows)

    def _answers(
        self, context: ImageContext, done: Sequence[str], cuts: Sequence[Sequence[int]]
    ) -> np.ndarray:
        """Probabilities with each of the sets silenced, [sets, images, classes] float32."""
        dense, rows = context.dense, context.rows(TEST)

        def run(batch: int) -> np.ndarray:
            found = np.empty((len(cuts), len(rows), len(dense.classes)), dtype=np.float32)
            for start in range(0, len(rows), batch):
                stepper(context)(start, len(rows))
                mine = slice(start, start + batch)
                images = dense.prepared(context.images.read(rows[mine]))
                with torch.no_grad(), resumed(dense.model, done, images):
                    for place, cut in enumerate(cuts):
                        context.hooks.check()
                        keep = torch.ones(context.graph.total, device=dense.device)
                        keep[list(cut)] = 0.0
                        with gated(dense.model, context.graph, keep):
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


def _done(context: ImageContext, shard: ImageShard) -> list[str]:
    """What need not be computed again for the sets of a shard."""
    mine = [group for group in context.graph.groups if group.root == shard.method]
    first = context.dense.prepared(context.images.read(context.rows(TEST)[:1]))
    return through(context.dense.model, mine[0], first) if mine else []


def _cells(context: ImageContext) -> Iterator[Cell]:
    """All images, then every group of every axis that may be judged."""
    request = context.plan.request
    axes, _ = lay_out(test_images(context), context.dense.classes, request.axes)
    for axis in axes:
        strata = list(axis.strata.values())
        for group in axis.groups.iloc[axis.counts].itertuples():
            yield axis.name, str(group.group), strata[group.stratum], int(group.cls)


def _changes(
    context: ImageContext, cells: Sequence[Cell], answers: np.ndarray, before: np.ndarray
) -> Iterator[dict[str, Any]]:
    """Rows of one set; answers and before: [images, classes]."""
    labels = context.labels(TEST)
    paired = {
        "log_probability": cross_entropy(before, labels) - cross_entropy(answers, labels),
        "accuracy": (predicted(answers) == labels) * 1.0 - (predicted(before) == labels),
    }
    for axis, group, rows, cls in cells:
        own = rows if cls < 0 else rows[labels[rows] == cls]
        same = {"axis": axis, "group": group, "n": len(own)}
        for metric, changes in paired.items():
            error = float(changes[own].std(ddof=1)) / len(own) ** 0.5
            yield same | {"metric": metric, "value": float(changes[own].mean()), "error": error}
        areas = [_area(context, one[rows], labels[rows], cls) for one in (answers, before)]
        yield same | {"metric": "auc", "value": areas[0] - areas[1], "error": np.nan}


def _area(context: ImageContext, answers: np.ndarray, labels: np.ndarray, cls: int) -> float:
    """AUC of some images, of one class against the rest where there is one."""
    ones = np.ones((len(labels), 1))
    if cls >= 0:
        return float(of_classes(answers, labels, ones, np.array([cls]))[0, 0, 0])
    return float(of_images(answers, labels, ones, context.plan.request.multi_class)[0, 0])

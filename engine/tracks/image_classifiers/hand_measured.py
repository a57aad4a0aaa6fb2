"""What the dense model of an audit answers without filters that a person chose, and what these
answers are worth."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.growing import Grown
from engine.audit.session import Executor, timed
from engine.classifiers.groups import GroupMeasure
from engine.classifiers.images.context import TEST, ImageContext, ImageShard
from engine.classifiers.images.dense import cost_row, cut_and_proved
from engine.classifiers.tables import kept_weights, layers_table
from engine.core.ids import rng
from engine.core.types import FilterMask, Hooks
from engine.models.runtime import with_backoff
from engine.report.hand_classifiers import MOST_TRIED, HandSet, rows_of
from engine.resident.warm import Warm
from engine.store.runs import Store
from engine.surgery.filters.cut import widths_after, with_weights
from engine.surgery.filters.graph import masked_filters
from engine.tracks.image_classifiers.run import AUDIT, ImageAudit
from engine.training.fit import probabilities

AT_ONCE = 1000
"""Images between two reports of progress."""


def measured_filters(
    grown: Grown, store: Store, hooks: Hooks, executor: Executor, warm: Warm | None
) -> tuple[ImageAudit, HandSet]:
    """The set on its split's images, with the dense model's answers; on test images it is also cut
    for real."""
    name = f"image classifier of {grown.run.id} {store.root}"
    audit = AUDIT.reopened(
        grown.plan, store, hooks, executor, warm, name, lambda one: 8 * one.start.n_parameters
    )
    context, chosen = audit.context, grown.variants[0]
    if context.settings.train is not None:  # the audit fitted it, and kept its weights
        context.dense = with_weights(context.start, kept_weights(grown.run, "dense"))
    places = tried_rows(context, grown.split)
    images = context.images.table.iloc[places].reset_index(drop=True)
    stored = _dense(context, grown.split)
    dense = _answers(audit, places, None) if stored is None else stored
    answers = _answers(audit, places, chosen.mask)
    with timed(audit.progress, "statistics", "groups and intervals"):
        measure = GroupMeasure(
            images,
            context.start.classes,
            audit.request.axes,
            dense,
            split=grown.split,
            multi_class=audit.request.multi_class,
        )
        rows = rows_of(measure.dense(), measure.variant([answers]), chosen.name, (0,))
    flops = float(context.graph.flops(chosen.mask.keep()))
    speedup = float(context.graph.flops()) / flops
    columns = {
        "speedup": speedup,
        "achieved": speedup,
        "flops": flops,
        "cut": json.dumps(chosen.mask.to_dict()),
    }
    tables: dict[str, pd.DataFrame] = {}
    if grown.split == TEST:
        more, tables = _cut(audit, grown)
        columns |= more
    return audit, HandSet(images, {0: dense}, {0: answers}, rows, columns, **tables)


def tried_rows(context: ImageContext, split: str) -> np.ndarray:
    """Positions of a split's images in the table of images, [n] int: of another than test at most
    MOST_TRIED, drawn once and for all."""
    rows = context.rows(split)
    if split == TEST or len(rows) <= MOST_TRIED:
        return rows
    return np.sort(
        rng("tried images", context.settings.first_seed, split).permutation(rows)[:MOST_TRIED]
    )


def _dense(context: ImageContext, split: str) -> np.ndarray | None:
    """What the audit stored of the dense model's answers to these images, None where nothing."""
    if split != TEST or not context.kept(ImageShard("dense_answers")):
        return None
    return context.answers(ImageShard("")).astype(np.float64)


def _answers(audit: ImageAudit, places: np.ndarray, mask: FilterMask | None) -> np.ndarray:
    """Answers to some images with filters silenced, [images, classes] float64; not kept: it takes
    seconds."""
    context, parts = audit.context, []
    model, read = context.dense, context.images.read
    what = "the dense model" if mask is None else "the model without these filters"
    for start in range(0, len(places), AT_ONCE):
        part = places[start : start + AT_ONCE]
        with timed(audit.progress, "measure", f"{what}, image {start} of {len(places)}"):

            def run(batch: int, part: np.ndarray = part) -> np.ndarray:
                return probabilities(
                    model.model, part, read, model.prepared, batch, context.hooks.check
                ).numpy()

            with masked_filters(model, context.graph, mask or FilterMask(context.graph.widths)):
                parts.append(with_backoff(run, context.settings.batch))
    return np.concatenate(parts).astype(np.float64)


def _cut(audit: ImageAudit, grown: Grown) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """The set cut for real and proved to be the masked model: what its row says of that, its cost
    and the widths it leaves."""
    context, chosen = audit.context, grown.variants[0]
    with timed(audit.progress, "cut", "and compare with the masked model"):
        small, history, agreement = cut_and_proved(context, context.dense, chosen.mask, chosen.name)
        apart = agreement.max_logit_difference
        costs = cost_row(context, small).assign(
            variant=chosen.name, max_logit_difference=apart, agrees=True
        )
    layers = layers_table({f"{chosen.name}#0": widths_after(chosen.mask)})
    return (
        {"history": json.dumps(history), "max_logit_difference": apart},
        {"costs": costs, "layers": layers},
    )

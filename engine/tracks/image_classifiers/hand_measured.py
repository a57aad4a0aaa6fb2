"""What the dense model of an audit answers without filters that a person chose, and what these
answers are worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.executors import Executor
from engine.audit.growing import Grown
from engine.audit.progress import Progress
from engine.audit.session import timed
from engine.classifiers.groups import GroupMeasure
from engine.classifiers.images.context import TEST, ImageContext, ImageShard
from engine.classifiers.images.dense import cost_row, cut_and_proved
from engine.classifiers.metrics import degenerate
from engine.classifiers.tables import kept_weights, layers_table
from engine.core.ids import rng
from engine.core.types import FilterMask, Hooks
from engine.models.runtime import with_backoff
from engine.report.hand_classifiers import MOST_TRIED
from engine.resident.warm import Warm
from engine.store.runs import Store
from engine.surgery.filters.cut import widths_after
from engine.surgery.filters.gates import masked_filters
from engine.surgery.filters.weights import with_weights
from engine.tracks.image_classifiers.run import ImageAudit, context_of
from engine.training.fit import probabilities

AT_ONCE = 1000
"""Images between two reports of progress."""


@dataclass(frozen=True)
class HandSet:
    """A measured set. answers, dense: by trial (there is one), [images, classes], to `images`;
    flat: whether the model names one class only; rows: tables `results` and `groups`, of the dense
    model too; flops of an image with the mask;
    history, apart: of the cut, and the largest difference of a logit it makes; notes: what must be
    said.
    """

    images: pd.DataFrame
    answers: Mapping[int, np.ndarray]
    dense: Mapping[int, np.ndarray]
    flat: Mapping[int, bool]
    rows: Mapping[str, pd.DataFrame]
    flops: float
    history: list[list[Any]]
    apart: float
    costs: pd.DataFrame
    layers: pd.DataFrame
    notes: tuple[str, ...] = ()


def opened(
    grown: Grown, store: Store, hooks: Hooks, executor: Executor, warm: Warm | None
) -> ImageAudit:
    """The audit's model, loaded or kept in `warm`; it is proved on this very model that masking
    filters acts."""
    progress, warm = Progress(hooks.report), warm or Warm(0)
    with timed(progress, "load", grown.plan.model.name):
        kept = warm.get(
            f"image classifier of {grown.run.id} {store.root}",
            lambda: _proved(grown, store),
            _bytes_of,
        )
        context = replace(kept, hooks=hooks, keeper=store.shards, partial=store.partial)
        if context.settings.train is not None:  # the audit fitted it, and kept its weights
            context.dense = with_weights(context.start, kept_weights(grown.run, "dense"))
    return ImageAudit(grown.plan, context, progress, executor)


def _proved(grown: Grown, store: Store) -> ImageContext:
    context = context_of(grown.plan, store)
    context.prove()
    return context


def _bytes_of(context: ImageContext) -> int:
    """About what the model takes, before and after it is fitted."""
    return 8 * context.start.n_parameters


def measured(grown: Grown, audit: ImageAudit) -> HandSet:
    """The set, on the images of the growth's split."""
    context, mask = audit.context, grown.variants[0].mask
    places = tried_rows(context, grown.split)
    images = context.images.table.iloc[places].reset_index(drop=True)
    dense = _dense(audit, places, images) if grown.split == TEST else _answers(audit, places, None)
    answers = _answers(audit, places, mask)
    with timed(audit.progress, "statistics", "groups and intervals"):
        rows = _rows(grown, context, images, dense, answers)
    history, apart, costs, layers = (
        _cut(audit, grown) if grown.split == TEST else ([], 0.0, *[pd.DataFrame()] * 2)
    )
    flops = float(context.graph.flops(mask.keep()))
    flat = {0: degenerate(answers)}
    return HandSet(
        images, {0: answers}, {0: dense}, flat, rows, flops, history, apart, costs, layers
    )


def tried_rows(context: ImageContext, split: str) -> np.ndarray:
    """Positions of a split's images in the table of images, [n] int: of another than test at most
    MOST_TRIED, drawn once and for all."""
    rows = context.rows(split)
    if split == TEST or len(rows) <= MOST_TRIED:
        return rows
    return np.sort(
        rng("tried images", context.settings.first_seed, split).permutation(rows)[:MOST_TRIED]
    )


def _dense(audit: ImageAudit, places: np.ndarray, images: pd.DataFrame) -> np.ndarray:
    """The dense model's answers to the test images as the audit has them, [images, classes]
    float64."""
    stored = (
        audit.context.answers(ImageShard(""))
        if audit.context.kept(ImageShard("dense_answers"))
        else None
    )
    return _answers(audit, places, None) if stored is None else stored.astype(np.float64)


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


def _rows(
    grown: Grown,
    context: ImageContext,
    images: pd.DataFrame,
    dense: np.ndarray,
    answers: np.ndarray,
) -> dict[str, pd.DataFrame]:
    """results and groups of the set, pooled and its one trial, and of the dense model."""
    name, request = grown.variants[0].name, grown.plan.request
    measure = GroupMeasure(
        images,
        context.start.classes,
        request.axes,
        dense,
        split=grown.split,
        multi_class=request.multi_class,
    )
    mine = measure.variant([answers])
    found = [measure.dense(), mine.pooled(name), mine.trial(0, f"{name}#0")]
    return {
        table: pd.concat([getattr(part, table) for part in found], ignore_index=True)
        for table in ("results", "groups")
    }


def _cut(
    audit: ImageAudit, grown: Grown
) -> tuple[list[list[Any]], float, pd.DataFrame, pd.DataFrame]:
    """The set cut for real, which must answer as the masked model: history, difference, costs,
    filters per layer."""
    context, chosen = audit.context, grown.variants[0]
    with timed(audit.progress, "cut", "and compare with the masked model"):
        small, history, agreement = cut_and_proved(context, context.dense, chosen.mask, chosen.name)
        apart = agreement.max_logit_difference
        costs = cost_row(context, small).assign(
            variant=chosen.name, max_logit_difference=apart, agrees=True
        )
    return history, apart, costs, layers_table({f"{chosen.name}#0": widths_after(chosen.mask)})

"""More of a finished audit: filters that a person chose, silenced in the dense model, measured
group by group.

Nothing is trained again, unlike for the audit's own variants. A set is tried on validation images,
or on training images where there are none, before it is measured on test images. Then it is also
cut for real, proved to be the masked model, and costs what that costs. What comes out is an
addition to the run (engine/store/runs.py). No torch until something is measured.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from engine.audit.request import Growth
from engine.audit.session import Executor, Grown, Session, timed
from engine.classifiers.groups import GroupMeasure
from engine.classifiers.images.context import TEST, ImageContext, ImageShard
from engine.classifiers.images.dense import cost_row, cut_and_proved
from engine.classifiers.tables import kept_weights, layers_table
from engine.core.errors import Fault
from engine.core.ids import rng
from engine.core.types import FilterMask, Hooks
from engine.models.runtime import with_backoff
from engine.report.hand_classifiers import (
    MOST_TRIED,
    Chosen,
    HandSet,
    HandSets,
    check_set,
    chosen_of,
    rows_of,
)
from engine.report.hand_sets import classifier_rows, told_of
from engine.resident.warm import Warm
from engine.store.runs import Run, Store
from engine.surgery.filters.graph import masked_filters, widths_after, with_weights
from engine.surgery.named import checked_filters, cut_of, filter_mask
from engine.tracks.image_classifiers.run import AUDIT, ImageAudit
from engine.tracks.image_classifiers.words import NO_EFFECTS, NOT_RETRAINED, said, units_of
from engine.training.fit import probabilities


def chosen_filters(run: Run, request: Growth) -> tuple[Chosen, str]:
    """The set that a growth asks of a run, and the split of its images. RequestError where there is
    none."""
    level = Fault(
        "speedup",
        "of an image classifier's method is trained: it is asked as an audit with one level more.",
        f"Give {units_of(run)}, or start the audit again with the speedup added.",
    )
    check_set(run, request, level, int(run.meta["model"]["n_filters"]))
    units = checked_filters(run, request.units)
    return chosen_of(run, request, filter_mask(run, units), units, lambda row: cut_of(run, row))


def _measured(
    grown: Grown, store: Store, hooks: Hooks, executor: Executor, warm: Warm | None
) -> tuple[Session[Any, Any], HandSet]:

    return measured_filters(grown, store, hooks, executor, warm)


HAND = HandSets("image_id", chosen_filters, _measured)
grow, check_growth = HAND.grow, HAND.check


def told(before: Run, after: Run, growth: Growth) -> dict[str, Any]:
    """As `told_of` says it; nothing is predicted."""
    chosen, split = chosen_filters(after, growth)
    notes = [said(before, text) for text in (NOT_RETRAINED, NO_EFFECTS)]
    rows = classifier_rows(after, growth, chosen.name, split, None)
    return told_of(before, after, split, {chosen.name: chosen.mask.to_dict()}, rows, notes)


# What the dense model of an audit answers without filters that a person chose, and what these
# answers are worth.


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

"""One trial: cut for real, prove that the cut is the mask, retrain, and answer every test image."""

from __future__ import annotations

import copy
import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from engine.audit.measurements import Measurement
from engine.classifiers.audit import EachAlone
from engine.classifiers.groups import cross_entropy, of_axis, predicted
from engine.classifiers.images.context import TEST, TRAIN, ImageContext, ImageShard
from engine.classifiers.images.dense import (
    DenseCost,
    answers_of,
    batches_of,
    cut_and_proved,
    settings_of,
    stepper,
    targets_of,
    validator,
)
from engine.classifiers.layout import Axis, lay_out
from engine.classifiers.tables import test_images
from engine.core.types import rng
from engine.models.load_image_classifier import Classifier
from engine.models.runtime import with_backoff
from engine.store.runs import curve_arrays, pack, within
from engine.surgery.filters.graph import (
    arrays_of,
    cut_filters,
    filter_graph,
    gated,
    resumed,
    with_weights,
)
from engine.tracks.image_classifiers.methods import (
    Chosen,
    FilterJob,
    FilterMethod,
    filter_method,
)
from engine.training.fit import fit
from engine.training.losses import Targets
from engine.training.recipe import ADDED, VIEW, LossPlan, loss_while_pruning


class Trial(EachAlone):
    """Array table: weights/… of the cut and retrained model, probabilities [test images, classes],
    keep [units], curve/…, and plainly: history, flops, met, agreement of masked and cut before
    retraining."""

    name = "trial"
    pace = 1.6

    def parts(self, context: ImageContext, shard: ImageShard) -> dict[str, Any]:
        chosen = context.kind("chosen")
        plan = context.settings.plan(shard.method, shard.loss)
        retrain: list[object] = [
            plan.weights_in_retraining,
            plan.labels_in_retraining,
            context.mirror,
        ]
        retrain += [plan.theta, plan.gamma] if plan.weights_in_retraining else []
        retrain += (
            [plan.weighting] if plan.weights_in_retraining and plan.weighting != ADDED else []
        )
        retrain += [VIEW] if by_view(context, plan) else []
        return {
            "chosen": [chosen.version, chosen.parts(context, chosen_shard(shard))],
            "recipe": context.settings.retrain.to_dict(),
            "loss": retrain,
        }

    def needs(self, context: ImageContext, shard: ImageShard) -> list[ImageShard]:
        return [ImageShard("original"), chosen_shard(shard)]

    def table(self, context: ImageContext, shard: ImageShard) -> pd.DataFrame:
        arrays, plain = context.fetch_arrays(chosen_shard(shard))
        base = (
            with_weights(context.dense, within(arrays, "weights/"))
            if plain["trained"]
            else context.dense
        )
        mask = context.graph.mask(arrays["keep"])
        small, history, agreement = cut_and_proved(context, base, mask, context.describe(shard))
        curve = self._retrain(context, shard, small)
        after = {f"weights/{name}": value for name, value in arrays_of(small.model).items()}
        found = {"probabilities": answers_of(context, small, TEST), "keep": arrays["keep"]}
        found |= {**after, **curve_arrays(curve)}
        more = {
            "history": history,
            "flops": filter_graph(small).flops(),
            "met": plain["met"],
            "max_logit_difference": agreement.max_logit_difference,
            "agrees": agreement.holds,
        }
        return pack(found, more)

    def _retrain(
        self, context: ImageContext, shard: ImageShard, small: Classifier
    ) -> list[dict[str, float]]:
        recipe = context.settings.retrain
        plan = context.settings.plan(shard.method, shard.loss)
        apart = by_view(context, plan)
        batches = batches_of(
            context, small, recipe.batch, context.seed("retrain", shard.trial), recipe.mirror, apart
        )
        return fit(
            small.model,
            batches,
            targets_of(context, plan, "retrain", apart=apart),
            recipe,
            small.architecture.classifier(small.model),
            context.hooks.check,
            stepper(context),
            context.partial(context.key(shard)),
            validator(context, small, recipe),
        )

    def size(self, context: ImageContext, shard: ImageShard) -> float:
        return (
            3.0
            * context.settings.retrain.epochs
            * len(context.rows(TRAIN))
            / min(shard.speedup, 4.0)
        )


def by_view(context: ImageContext, plan: LossPlan) -> bool:
    """Whether labels are corrected by the original model's answer to each view, mirrored or not."""
    mirrors = context.settings.retrain.mirror and context.mirror
    return plan.labels_in_retraining and mirrors and context.settings.corrected == VIEW


def chosen_shard(shard: ImageShard) -> ImageShard:
    """Where this trial's mask comes from."""
    loss = loss_while_pruning(shard.loss, filter_method(shard.method).looks_at_images)
    return replace(shard, kind="chosen", loss=loss)


def trial_model(context: ImageContext, shard: ImageShard) -> Classifier:
    """The cut and retrained model of a trial."""
    arrays = context.fetch_arrays(replace(shard, kind="trial"))[0]
    small, _ = cut_filters(context.dense, context.graph.mask(arrays["keep"]))
    return with_weights(small, within(arrays, "weights/"))


# What a cut saves: the cost of a trial's cut model, measured beside the dense one.


class ImageCost(DenseCost):
    """The columns of the dense model's cost, which has method ""; of trials too."""

    def parts(self, context: ImageContext, shard: ImageShard) -> dict[str, Any]:
        own = super().parts(context, shard)
        return (
            {**own, "trial": context.kind("trial").parts(context, shard)} if shard.method else own
        )

    def needs(self, context: ImageContext, shard: ImageShard) -> list[ImageShard]:
        return [replace(shard, kind="trial")] if shard.method else []

    def model_of(self, context: ImageContext, shard: ImageShard) -> Classifier:
        return trial_model(context, shard) if shard.method else super().model_of(context, shard)


# Which filters a method cuts for every target speedup, from one search per arm and trial.


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
        held = _held(context, method, first) if method.looks_at_images else None
        hooks = {"check": context.hooks.check, "step": stepper(context)}
        job = _job(context, method, first, tuple(sorted(wanted)), held, **hooks)
        found = {one.speedup: one for one in method.choose(job)}
        return [_packed(found[shard.speedup]) for shard in shards]

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


def _held(context: ImageContext, method: FilterMethod, shard: ImageShard) -> Targets:
    plan = context.settings.plan(method.name, shard.loss)
    return targets_of(context, plan, "prune", method.plain_labels)


def _job(
    context: ImageContext,
    method: FilterMethod,
    shard: ImageShard,
    speedups: tuple[float, ...],
    held: Targets | None,
    **hooks: Any,
) -> FilterJob:
    """What a method works on; hooks: as `check` and `step` of the job."""
    settings = settings_of(context, method)
    own = replace(context.dense, model=copy.deepcopy(context.dense.model))
    seed = context.seed("prune", shard.trial)
    batches = batches_of(context, own, int(settings.get("batch", method.batch)), seed)
    return FilterJob(own, context.graph, batches, held, speedups, seed, settings, **hooks)


def _packed(one: Chosen) -> pd.DataFrame:
    arrays = {
        "scores": one.scores.astype(np.float64),
        "keep": one.keep.astype(bool),
        **curve_arrays(one.curve),
    }
    for name, value in (one.weights or {}).items():
        arrays[f"weights/{name}"] = value.numpy()
    return pack(arrays, {"met": bool(one.met), "trained": one.weights is not None})


# Which images the pruning loss is about: share of every batch's loss per group and class (Fig.
# 4).


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
        held = _held(context, method, shard)
        noted = Noted(held.labels, held.weights)
        check = _until(context, noted)
        job = _job(context, method, shard, (shard.speedup,), noted, check=check)
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


# What silenced filters do to every group of the test images, nothing trained again: each filter
# alone, and random sets of them.


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

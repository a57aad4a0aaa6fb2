"""One training: cut as its method says, proved to be the mask, and asked about every test image."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from engine.audit.measurements import Measurement
from engine.classifiers.images.context import TEST, ImageShard
from engine.classifiers.images.dense import (
    DenseCost,
    answers_of,
    cut_and_proved,
    settings_of,
    stepper,
)
from engine.core.errors import MaskError
from engine.core.ids import rng
from engine.core.types import digest_of
from engine.models.load_image_classifier import Classifier
from engine.store.tables import curve_arrays, pack, within
from engine.surgery.filters.graph import COUNTED, cut_filters, filter_graph, with_weights
from engine.tracks.fair_training.context import FairContext, FairSettings, FairShard
from engine.tracks.fair_training.methods.base import (
    ACCURACY,
    FILTERS,
    RECIPE,
    UNITS,
    FairJob,
    FairMethod,
    Trained,
    fair_method,
)
from engine.tracks.fair_training.training.trainer import STATE
from engine.training.fit import Batches, probabilities
from engine.training.losses import Targets

# What the measurements share: a training's job, its shard, the model that came of it.


SOME = 1000
"""Test images on which surfaces and paths are measured, at most."""


def trained_shard(shard: FairShard, method: str | None = None) -> FairShard:
    """The training a measurement is about, or its counterpart with another method; λ only where
    that uses it."""
    name = method or shard.method
    draw = shard.draw if name == shard.method else 0
    strength = shard.strength if fair_method(name).fair else 0.0
    return FairShard("trained", name, shard.sparsity, strength, shard.seed, draw)


def widths_for(context: FairContext, shard: FairShard) -> np.ndarray | None:
    """How many filters of each group stay, [groups] int, where another method's training says
    that."""
    other = fair_method(shard.method).widths_of
    if not other:
        return None
    keep = context.without_weights(trained_shard(shard, other))[0]["keep"]
    return np.bincount(context.graph.group_of[keep], minlength=len(context.graph.groups))


def job_of(
    context: FairContext,
    method: FairMethod,
    shard: FairShard,
    sparsities: tuple[float, ...],
    key: str,
) -> FairJob:
    """One training; `key` names it where its unfinished phases are kept."""
    settings, seed = context.settings, context.seed("fair", shard.seed)
    recipe, device = settings.recipe, context.start.device
    own = replace(context.dense, model=copy.deepcopy(context.dense.model))
    labels = torch.as_tensor(
        context.images.table["label"].to_numpy(dtype=np.int64)[context.tuned], device=device
    )
    hot = functional.one_hot(labels, len(context.start.classes)).float()
    said = context.describe(
        replace(shard, sparsity=0.0) if method.one_descent else shard
    )  # a descent serves them all
    return FairJob(
        own,
        context.graph,
        Batches(
            context.tuned,
            context.images.read,
            own.prepared,
            recipe.batch,
            seed,
            recipe.mirror and context.mirror,
        ),
        Targets(hot, torch.ones(len(labels), device=device)),
        context.codes[context.tuned],
        context.before(context.tuned),
        sparsities,
        shard.strength,
        settings.iterations,
        recipe,
        seed,
        settings.tolerance,
        settings.notion,
        settings.check_every,
        settings.equal,
        shard.draw,
        widths_for(context, shard),
        settings_of(context, method),
        look=lambda model: looked(context, model),
        check=context.hooks.check,
        step=_stepper(context, method, sparsities),
        point=lambda row: context.hooks.point({"shard": said, **row}),
        keep=lambda phase: context.partial(digest_of([key, phase, STATE])),
    )


def _stepper(
    context: FairContext, method: FairMethod, sparsities: Sequence[float]
) -> Callable[[int, int], None]:
    """How far a training is: each phase reports its own steps alone, so they are summed up here."""
    tell, seen = stepper(context), {"before": 0, "last": 0}
    expected = max(1, round(method.rounds_of_all * context.settings.iterations * len(sparsities)))

    def step(done: int, total: int) -> None:
        if done <= seen["last"]:
            seen["before"] += seen["last"]
        seen["last"] = done
        tell(min(seen["before"] + done, expected), expected)

    return step


def looked(context: FairContext, model: nn.Module) -> dict[str, float]:
    """accuracy, gap, degradation and val_loss of a model on the validation images that are looked
    at."""
    was = model.training
    model.eval()
    found = probabilities(
        model,
        context.looked,
        context.images.read,
        context.dense.prepared,
        context.settings.batch,
        context.hooks.check,
    )
    model.train(was)
    return context.look.of(found.numpy())


def model_of(context: FairContext, shard: FairShard) -> Classifier:
    """The model that came of a training: cut for real, or with its cut weights at zero."""
    arrays, _ = context.fetch_arrays(trained_shard(shard))
    whole = with_weights(context.dense, within(arrays, "weights/"))
    if fair_method(shard.method).units != FILTERS:
        return whole
    return cut_filters(whole, context.graph.mask(arrays["keep"]))[0]


def must_be_zero(
    weights: Mapping[str, torch.Tensor], model: nn.Module, keep: np.ndarray, what: str
) -> int:
    """How many parameters are zero. MaskError unless all weights that the mask cuts are.

    keep [prunable weights] bool, in the order of the modules; weights: the state dict by name.
    """
    flat = np.concatenate(
        [
            weights[f"{name}.weight"].numpy().ravel()
            for name, part in model.named_modules()
            if isinstance(part, COUNTED)
        ]
    )
    if len(flat) != len(keep) or flat[~keep].any():
        raise MaskError(
            f"{what}: the mask of {len(keep)} weights is not what is zero. Nothing was kept of it."
        )
    return zeros_of(weights, model)


def zeros_of(weights: Mapping[str, Any], model: nn.Module) -> int:
    """How many parameters (batch norm's statistics are none) are exactly zero."""
    return sum(int((np.asarray(weights[name]) == 0).sum()) for name, _ in model.named_parameters())


def some_test_rows(context: FairContext) -> np.ndarray:
    """Places in the table of at most SOME test images, [images] int: a fixed draw."""
    rows = context.rows(TEST)
    return (
        rows if len(rows) <= SOME else np.sort(rng("surface", len(rows)).permutation(rows)[:SOME])
    )


def _usual(settings: FairSettings) -> bool:
    return settings.tolerance == 0.0 and settings.notion == ACCURACY


class TrainedModel(Measurement):
    """Array table: weights/… in full shapes, keep and scores [units], curve/…, probabilities [test
    images, classes] of the cut model. Plainly: history, flops, parameters, n_zero, spent,
    agreement of masked and cut.

    All sparsities of a descent are one training.
    """

    name = "trained"
    pace = 0.48

    def parts(self, context: FairContext, shard: FairShard) -> dict[str, Any]:
        method, settings = fair_method(shard.method), context.settings
        recipe = {
            name: value for name, value in settings.recipe.to_dict().items() if name in RECIPE
        }
        return {
            "method": method.version,
            "settings": settings_of(context, method),
            "recipe": {**recipe, "mirror": settings.recipe.mirror and context.mirror},
            "iterations": settings.iterations,
            "check_every": settings.check_every,  # the curve is part of what is kept
            "groups": [settings.axis, list(context.groups)],  # their gap is in the curve
            # the surrogate is in the curve of every method; a plain one's usual form was there
            # before it had a key
            "fair": (
                [settings.tolerance, settings.notion] if method.fair or not _usual(settings) else []
            ),
            "tune_on": settings.tune_on,
            "sparsities": list(settings.sparsities[method.name]) if method.one_descent else [],
            **(
                {"equal": settings.equal}
                if method.units == FILTERS and settings.equal != UNITS
                else {}
            ),
            **({"widths": self._of_widths(context, shard)} if method.widths_of else {}),
        }

    def _of_widths(self, context: FairContext, shard: FairShard) -> list[Any]:
        other = trained_shard(shard, fair_method(shard.method).widths_of)
        return [other.own, self.parts(context, other)]

    def together(self, context: FairContext, shard: FairShard) -> Hashable:
        return (
            (shard.method, shard.strength, shard.seed)
            if fair_method(shard.method).one_descent
            else shard
        )

    def needs(self, context: FairContext, shard: FairShard) -> list[FairShard | ImageShard]:
        other = fair_method(shard.method).widths_of
        of_widths = [trained_shard(shard, other)] if other else []
        return [ImageShard("original"), ImageShard("dense_answers"), *of_widths]

    def compute(self, context: FairContext, shards: Sequence[FairShard]) -> list[pd.DataFrame]:
        first, method = shards[0], fair_method(shards[0].method)
        # a descent depends on all its targets, also where only some are missing
        wanted = (
            context.settings.sparsities[method.name] if method.one_descent else (first.sparsity,)
        )
        whole = FairShard(
            "trained", first.method, max(wanted), first.strength, first.seed, first.draw
        )
        job = job_of(context, method, first, tuple(sorted(wanted)), context.key(whole))
        found = {one.sparsity: one for one in method.train(job)}
        return [self._packed(context, shard, found[shard.sparsity]) for shard in shards]

    def _packed(self, context: FairContext, shard: FairShard, one: Trained) -> pd.DataFrame:
        weights = {name: value.detach().cpu().numpy() for name, value in one.weights.items()}
        keep = np.asarray(one.keep, dtype=bool)
        small = with_weights(context.dense, weights)
        more: dict[str, Any] = {"history": [], "max_logit_difference": 0.0, "agrees": True}
        if fair_method(shard.method).units == FILTERS:
            mask = context.graph.mask(keep)
            small, history, agreement = cut_and_proved(
                context, small, mask, context.describe(shard)
            )
            n_zero = zeros_of(
                {name: value.cpu().numpy() for name, value in small.model.state_dict().items()},
                small.model,
            )
            more = {
                "history": history,
                "max_logit_difference": agreement.max_logit_difference,
                "agrees": agreement.holds,
            }
        elif len(keep):
            n_zero = must_be_zero(one.weights, small.model, keep, context.describe(shard))
        else:
            n_zero = zeros_of(weights, small.model)
        arrays = {f"weights/{name}": value for name, value in weights.items()}
        arrays |= {
            "keep": keep,
            "scores": np.asarray(one.scores, dtype=np.float32),
            **curve_arrays(one.curve),
        }
        arrays["probabilities"] = answers_of(context, small, TEST)
        more |= {
            "flops": filter_graph(small).flops(),
            "parameters": small.n_parameters,
            "n_zero": n_zero,
        }
        return pack(
            arrays, {**more, "spent": {name: float(value) for name, value in one.spent.items()}}
        )

    def size(self, context: FairContext, shard: FairShard) -> float:
        settings, method = context.settings, fair_method(shard.method)
        own = settings_of(context, method)
        looks = settings.iterations / settings.check_every * len(context.looked)
        steps = 3.0 * settings.iterations * settings.recipe.batch
        masks = (
            (1.0 - own["settle"]) / own["inner"] if "inner" in own else 0.0
        )  # a learned mask has its own batches
        return (steps * (1.0 + masks) + looks) * method.rounds_of_all + len(context.rows(TEST))


# What a model costs that was trained and cut here: FLOPs, parameters, bytes, and its latency
# beside the dense one.


class FairCost(DenseCost):
    """One row, with the columns of an image audit's `cost`."""

    name = "fair_cost"
    version = 1

    def parts(self, context: FairContext, shard: Any) -> dict[str, Any]:
        trained = context.kind("trained")
        own = [trained.version, trained.parts(context, trained_shard(shard))]
        return {**super().parts(context, ImageShard("cost")), "trained": own}

    def needs(self, context: FairContext, shard: Any) -> list[FairShard]:
        return [trained_shard(shard)]

    def model_of(self, context: FairContext, shard: Any) -> Classifier:
        return model_of(context, shard)

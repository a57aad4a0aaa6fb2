"""What the measurements share: a training's job, its shard, the model that came of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from engine.classifiers.images.context import TEST
from engine.classifiers.images.dense import settings_of, stepper
from engine.core.errors import MaskError
from engine.core.ids import rng
from engine.core.types import digest_of
from engine.models.load_image_classifier import Classifier
from engine.store.tables import within
from engine.surgery.filters.cut import cut_filters, with_weights
from engine.surgery.filters.graph import COUNTED
from engine.tracks.fair_training.context import FairContext, FairShard
from engine.tracks.fair_training.methods.base import FILTERS, FairJob, FairMethod, fair_method
from engine.tracks.fair_training.training.trainer import STATE
from engine.training.batches import Batches
from engine.training.fit import probabilities
from engine.training.losses import Targets

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

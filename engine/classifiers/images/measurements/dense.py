"""The model before any cut: fitted where it does not come trained, and what it answers."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import torch
from torch.nn import functional

from engine.audit.measurements import Measurement
from engine.classifiers.images.context import TEST, TRAIN, VALIDATION, ImageContext, ImageShard
from engine.classifiers.images.measurements._work import answers_of, batches_of, stepper, validator
from engine.store.array_table import curve_arrays, pack
from engine.surgery.filters.weights import arrays_of
from engine.training.fit import fit
from engine.training.losses import Targets
from engine.training.recipe import Recipe


class DenseWeights(Measurement):
    """Weights after fitting with plain cross-entropy, as arrays weights/<name>, and its curve as
    curve/<column>."""

    name = "dense_weights"

    def parts(self, context: ImageContext, shard: ImageShard) -> dict[str, Any]:
        return {"mirror": context.mirror}

    def together(self, context: ImageContext, shard: ImageShard) -> Hashable:
        return shard

    def compute(self, context: ImageContext, shards: Sequence[ImageShard]) -> list[pd.DataFrame]:
        """The packed arrays (array_table.pack) of every shard: weights by name, and columns
        [epochs] of the curve."""
        recipe = _recipe(context)
        model = copy.deepcopy(context.start.model)
        truth = torch.as_tensor(context.labels(TRAIN), device=context.start.device)
        hot = functional.one_hot(truth, len(context.start.classes)).float()
        curve = fit(
            model,
            batches_of(
                context, context.start, recipe.batch, context.seed("train", 0), recipe.mirror
            ),
            Targets(hot, torch.ones(len(truth), device=truth.device)),
            recipe,
            context.start.architecture.classifier(model),
            context.hooks.check,
            stepper(context),
            context.partial(context.key(shards[0])),
            validator(context, replace(context.start, model=model), recipe),
        )
        weights = {f"weights/{name}": array for name, array in arrays_of(model).items()}
        return [pack({**weights, **curve_arrays(curve)}) for _ in shards]

    def size(self, context: ImageContext, shard: ImageShard) -> float:
        return 3.0 * _recipe(context).epochs * len(context.rows(TRAIN))


def _recipe(context: ImageContext) -> Recipe:
    recipe = context.settings.train
    assert recipe is not None, "only what is to be trained has such a part"
    return recipe


class Original(Measurement):
    """The dense model's probabilities of all training images, as they are (not mirrored), [n,
    classes] float32."""

    name = "original"
    any_threads = True

    def parts(self, context: ImageContext, shard: ImageShard) -> dict[str, Any]:
        return {}

    def together(self, context: ImageContext, shard: ImageShard) -> Hashable:
        return shard

    def compute(self, context: ImageContext, shards: Sequence[ImageShard]) -> list[pd.DataFrame]:
        """The packed array `probabilities` [training images, classes] float32 for every shard."""
        return [pack({"probabilities": answers_of(context, context.dense, TRAIN)}) for _ in shards]

    def size(self, context: ImageContext, shard: ImageShard) -> float:
        return float(len(context.rows(TRAIN)))


class DenseAnswers(Measurement):
    """The dense model's probabilities of all test images, and of the validation images, [n,
    classes] float32 each."""

    name = "dense_answers"
    any_threads = True

    def parts(self, context: ImageContext, shard: ImageShard) -> dict[str, Any]:
        return {}

    def together(self, context: ImageContext, shard: ImageShard) -> Hashable:
        return shard

    def compute(self, context: ImageContext, shards: Sequence[ImageShard]) -> list[pd.DataFrame]:
        """The packed arrays `probabilities` and, where there are such images, `validation`, for
        every shard."""
        arrays = {"probabilities": answers_of(context, context.dense, TEST)}
        if len(context.rows(VALIDATION)):
            arrays["validation"] = answers_of(context, context.dense, VALIDATION)
        return [pack(arrays) for _ in shards]

    def size(self, context: ImageContext, shard: ImageShard) -> float:
        return float(len(context.rows(TEST)) + len(context.rows(VALIDATION)))

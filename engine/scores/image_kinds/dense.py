"""The model before any cut: fitted where it does not come trained, and what it answers."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd
import torch
from torch.nn import functional

from engine.metrics.image_bench import TEST, TRAIN, VALIDATION, ImageBench, ImageShard
from engine.metrics.packed import curve_arrays, pack
from engine.metrics.workbench import Kind
from engine.scores.image_kinds._work import answers_of, batches_of, stepper
from engine.surgery.filter_weights import arrays_of
from engine.training.fit import fit
from engine.training.losses import Targets


class DenseWeights(Kind):
    """Weights after fitting with plain cross-entropy, and the curve of that."""

    name = "dense_weights"

    def parts(self, bench: ImageBench, shard: ImageShard) -> dict[str, Any]:
        return {"mirror": bench.mirror}

    def together(self, bench: ImageBench, shard: ImageShard) -> Hashable:
        return shard

    def compute(self, bench: ImageBench, shards: Sequence[ImageShard]) -> list[pd.DataFrame]:
        recipe = bench.settings.train
        model = copy.deepcopy(bench.start.model)
        truth = torch.as_tensor(bench.labels(TRAIN), device=bench.start.device)
        hot = functional.one_hot(truth, len(bench.start.classes)).float()
        curve = fit(
            model, batches_of(bench, bench.start, recipe.batch, bench.seed("train", 0), recipe.mirror),
            Targets(hot, torch.ones(len(truth), device=truth.device)), recipe,
            bench.start.architecture.classifier(model), bench.hooks.check, stepper(bench),
            bench.partial(bench.key(shards[0])),
        )  # fmt: skip
        weights = {f"weights/{name}": array for name, array in arrays_of(model).items()}
        return [pack({**weights, **curve_arrays(curve)}) for _ in shards]

    def size(self, bench: ImageBench, shard: ImageShard) -> float:
        return 3.0 * bench.settings.train.epochs * len(bench.rows(TRAIN))


class Original(Kind):
    """The dense model's probabilities of all training images, as they are (not mirrored)."""

    name = "original"

    def parts(self, bench: ImageBench, shard: ImageShard) -> dict[str, Any]:
        return {}

    def together(self, bench: ImageBench, shard: ImageShard) -> Hashable:
        return shard

    def compute(self, bench: ImageBench, shards: Sequence[ImageShard]) -> list[pd.DataFrame]:
        return [pack({"probabilities": answers_of(bench, bench.dense, TRAIN)}) for _ in shards]

    def size(self, bench: ImageBench, shard: ImageShard) -> float:
        return float(len(bench.rows(TRAIN)))


class DenseAnswers(Kind):
    """The dense model's probabilities of all test images, and of the validation images."""

    name = "dense_answers"

    def parts(self, bench: ImageBench, shard: ImageShard) -> dict[str, Any]:
        return {}

    def together(self, bench: ImageBench, shard: ImageShard) -> Hashable:
        return shard

    def compute(self, bench: ImageBench, shards: Sequence[ImageShard]) -> list[pd.DataFrame]:
        arrays = {"probabilities": answers_of(bench, bench.dense, TEST)}
        if len(bench.rows(VALIDATION)):
            arrays["validation"] = answers_of(bench, bench.dense, VALIDATION)
        return [pack(arrays) for _ in shards]

    def size(self, bench: ImageBench, shard: ImageShard) -> float:
        return float(len(bench.rows(TEST)))

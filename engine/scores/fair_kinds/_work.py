"""What the kinds share: a training's job, its shard, the model that came of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from engine.errors import MaskError
from engine.metrics.fair_bench import FairBench, FairShard
from engine.metrics.image_bench import TEST
from engine.metrics.packed import within
from engine.models.load_classifier import Classifier
from engine.scores.fair_base import FILTERS, FairJob, FairMethod, fair_method
from engine.scores.image_kinds._work import settings_of, stepper
from engine.seeds import rng
from engine.surgery.filter_cut import cut_filters
from engine.surgery.filter_graph import COUNTED
from engine.surgery.filter_weights import with_weights
from engine.training.batches import Batches
from engine.training.fit import probabilities
from engine.training.losses import Targets
from engine.training.recipe import Keep
from engine.types import digest_of

SOME = 1000
"""Test images on which surfaces and paths are measured, at most."""


def trained_shard(shard: FairShard, method: str | None = None) -> FairShard:
    """The training that a measurement is about, or the same of another method; λ only where that has any use for it."""
    name = method or shard.method
    return FairShard("trained", name, shard.sparsity, shard.strength if fair_method(name).fair else 0.0, shard.seed)


def job_of(bench: FairBench, method: FairMethod, shard: FairShard, sparsities: tuple[float, ...], key: str) -> FairJob:
    """One training; `key` names it where its unfinished phases are kept."""
    settings, seed = bench.settings, bench.seed("fair", shard.seed)
    recipe, device = settings.recipe, bench.start.device
    own = replace(bench.dense, model=copy.deepcopy(bench.dense.model))
    labels = torch.as_tensor(bench.images.table["label"].to_numpy(dtype=np.int64)[bench.tuned], device=device)
    hot = functional.one_hot(labels, len(bench.start.classes)).float()
    said = bench.describe(replace(shard, sparsity=0.0) if method.one_descent else shard)  # a descent serves them all
    return FairJob(
        own, bench.graph,
        Batches(bench.tuned, bench.images.read, own.prepared, recipe.batch, seed, recipe.mirror and bench.mirror),
        Targets(hot, torch.ones(len(labels), device=device)),
        bench.codes[bench.tuned], bench.before(bench.tuned), sparsities, shard.strength, settings.iterations, recipe,
        seed, settings.tolerance, settings.notion, settings.check_every, settings_of(bench, method),
        look=lambda model: looked(bench, model),
        check=bench.hooks.check, step=_stepper(bench, method, sparsities),
        point=lambda row: bench.hooks.point({"shard": said, **row}),
        keep=_keeper(bench, key),
    )  # fmt: skip


def _stepper(bench: FairBench, method: FairMethod, sparsities: Sequence[float]) -> Callable[[int, int], None]:
    """How far a training is: its phases tell of themselves alone, so what they took is summed up here."""
    tell, seen = stepper(bench), {"before": 0, "last": 0}
    expected = max(1, round(method.rounds_of_all * bench.settings.iterations * len(sparsities)))

    def step(done: int, total: int) -> None:
        if done <= seen["last"]:
            seen["before"] += seen["last"]
        seen["last"] = done
        tell(min(seen["before"] + done, expected), expected)

    return step


def _keeper(bench: FairBench, key: str) -> Callable[[str], Keep]:
    return lambda phase: bench.partial(digest_of([key, phase]))


def looked(bench: FairBench, model: nn.Module) -> dict[str, float]:
    """accuracy, gap, degradation and val_loss of a model on the validation images that are looked at."""
    was = model.training
    model.eval()
    found = probabilities(
        model, bench.looked, bench.images.read, bench.dense.prepared, bench.settings.batch, bench.hooks.check
    )
    model.train(was)
    return bench.look.of(found.numpy())


def model_of(bench: FairBench, shard: FairShard) -> Classifier:
    """The model that came of a training: cut for real, or with its cut weights at zero."""
    arrays, _ = bench.fetch_arrays(trained_shard(shard))
    whole = with_weights(bench.dense, within(arrays, "weights/"))
    if fair_method(shard.method).units != FILTERS:
        return whole
    return cut_filters(whole, bench.graph.mask(arrays["keep"]))[0]


def must_be_zero(weights: Mapping[str, torch.Tensor], model: nn.Module, keep: np.ndarray, what: str) -> int:
    """How many parameters are zero. MaskError unless the weights that the mask cuts are, all of them."""
    flat = np.concatenate([
        weights[f"{name}.weight"].numpy().ravel() for name, part in model.named_modules() if isinstance(part, COUNTED)
    ])  # fmt: skip
    if len(flat) != len(keep) or flat[~keep].any():
        raise MaskError(f"{what}: the mask of {len(keep)} weights is not what is zero. Nothing was kept of it.")
    return zeros_of(weights, model)


def zeros_of(weights: Mapping[str, Any], model: nn.Module) -> int:
    """How many parameters (batch norm's statistics are none) are exactly zero."""
    return sum(int((np.asarray(weights[name]) == 0).sum()) for name, _ in model.named_parameters())


def some_test_rows(bench: FairBench) -> np.ndarray:
    """Places in the table of at most SOME test images: a fixed draw."""
    rows = bench.rows(TEST)
    return rows if len(rows) <= SOME else np.sort(rng("surface", len(rows)).permutation(rows)[:SOME])

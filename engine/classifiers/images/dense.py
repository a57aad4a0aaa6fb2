"""The model that an audit of an image classifier starts from: loaded, fitted, asked and timed; and
what every model that is cut from it goes through. Loads torch."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from engine.audit.measurements import Measurement, latency_row, paired_latency
from engine.audit.session import Tables, counts_of
from engine.classifiers.audit import EachAlone
from engine.classifiers.groups import cross_entropy
from engine.classifiers.images.context import TEST, TRAIN, VALIDATION, ImageContext, ImageShard
from engine.classifiers.images.request import ImagePlan, ImagesRequest
from engine.core.discover import named
from engine.core.errors import MaskError
from engine.core.types import FilterMask
from engine.models.load_image_classifier import Classifier, fresh_classifier, load_classifier
from engine.store.runs import curve_arrays, pack
from engine.surgery.agreement import Agreement
from engine.surgery.filters.graph import (
    History,
    agree_filters,
    arrays_of,
    cut_filters,
    filter_graph,
)
from engine.training.fit import Batches, fit, probabilities
from engine.training.losses import LossPlan, Targets, targets
from engine.training.recipe import Recipe


def starting_model(plan: ImagePlan) -> Classifier:
    """The model as the request names it: with its weights, or new where it is to be fitted
    first."""
    request, info = plan.request, plan.model
    if plan.is_fresh:
        return fresh_classifier(
            request.model,
            info.classes,
            info.size,
            request.first_seed,
            request.weights,
            request.device,
        )
    return load_classifier(
        request.model, request.weights, classes=info.classes, size=info.size, device=request.device
    )


def model_meta(plan: ImagePlan, context: ImageContext) -> dict[str, Any]:
    """The model in run.json."""
    return {
        "name": plan.model.name,
        "architecture": context.start.arch,
        "revision": None,
        "weight_hash": context.dense.weight_hash,
        "starting_weight_hash": context.start.weight_hash,
        "classes": list(context.start.classes),
        "n_groups": len(context.graph.groups),
        "n_filters": context.graph.total,
        "layers": [list(pair) for pair in context.graph.widths],
        **({"units": "heads"} if context.graph.groups[0].is_heads else {}),
        "kept_whole": list(context.graph.whole),
        "parameters": context.start.n_parameters,
        "flops": context.graph.flops(),
        "size": context.start.size,
        **(
            {"processor": json.loads(context.start.processor.said)}
            if context.start.processor
            else {}
        ),
    }


def data_meta(plan: ImagePlan, tables: Tables) -> dict[str, Any]:
    """The images in run.json. tables: the run's tables by name, of which `groups` gives the counts
    (`counts_of`)."""
    images = plan.images
    return {
        "name": images.name,
        "digest": images.digest,
        "notes": list(images.notes),
        "stand_in": images.stand_in,
        "target": plan.request.target or "",
        "classes": list(images.classes),
        "groups": list(images.groups),
        "counts": counts_of(tables),
        "images": {str(split): int(n) for split, n in images.table["split"].value_counts().items()},
    }


def dense_phases(request: ImagesRequest) -> dict[str, list[ImageShard]]:
    """What every audit measures first: the model it starts from, fitted where it does not come
    trained."""
    return {
        "train the dense model": [ImageShard("dense_weights")] if request.train is not None else [],
        "ask the dense model": [ImageShard("original"), ImageShard("dense_answers")],
    }


def batches_of(
    context: ImageContext,
    classifier: Classifier,
    size: int,
    seed: int,
    mirror: bool = False,
    apart: bool = False,
) -> Batches:
    """The training images in the order of this seed; apart: see `Batches`."""
    read = context.images.read
    return Batches(
        context.rows(TRAIN), read, classifier.prepared, size, seed, mirror and context.mirror, apart
    )


def targets_of(
    context: ImageContext, plan: LossPlan, place: str, plain: str = "truth", apart: bool = False
) -> Targets:
    """What every training image is compared with in one place ("prune" or "retrain"), on the
    model's device.

    apart: all images as they are, then all of them mirrored, each by the original model's answer to
    that view.
    """
    original = torch.as_tensor(context.original())
    truth = torch.as_tensor(context.labels(TRAIN))
    if apart:
        original, truth = torch.cat([original, mirrored_answers(context)]), truth.repeat(2)
    found = targets(plan, original, truth, place, plain)
    return Targets(found.labels.to(context.start.device), found.weights.to(context.start.device))


def mirrored_answers(context: ImageContext) -> torch.Tensor:
    """The dense model's probabilities of the training images left to right, [n, classes] float32 on
    the CPU."""

    def read(rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(context.images.read(rows)[:, :, ::-1])

    rows, dense = context.rows(TRAIN), context.dense
    return probabilities(
        dense.model, rows, read, dense.prepared, context.settings.batch, context.hooks.check
    )


def answers_of(context: ImageContext, classifier: Classifier, split: str) -> np.ndarray:
    """Probabilities of a split's images, [n, classes] float32; batches shrink when memory is
    short."""
    from engine.models.runtime import with_backoff

    def run(batch: int) -> np.ndarray:
        return probabilities(
            classifier.model,
            context.rows(split),
            context.images.read,
            classifier.prepared,
            batch,
            context.hooks.check,
        ).numpy()

    return with_backoff(run, context.settings.batch)


def validator(
    context: ImageContext, classifier: Classifier, recipe: Recipe
) -> Callable[[], float] | None:
    """What a fit stops early by: the mean cross-entropy of the classifier, as it then is, on the
    validation images (nats); None where the recipe does not stop early."""
    if not recipe.patience:
        return None
    labels = context.labels(VALIDATION)
    return lambda: float(cross_entropy(answers_of(context, classifier, VALIDATION), labels).mean())


def stepper(context: ImageContext) -> Callable[[int, int], None]:
    """A function that reports steps (done, total) within one long measurement."""
    return lambda done, total: context.inside(done / max(total, 1))


def settings_of(context: ImageContext, method: Any) -> dict[str, Any]:
    """All settings of a method, declared defaults included."""
    given = context.settings.methods.get(method.name, {})
    return {item.name: given.get(item.name, item.default) for item in method.settings}


PROBES = 16
"""Images on which the masked model and the cut one are compared."""


def cut_and_proved(
    context: ImageContext, base: Classifier, mask: FilterMask, what: str
) -> tuple[Classifier, History, Agreement]:
    """`base` cut for real, the history that replays the cut, and the comparison with the masked
    model.

    MaskError, which begins with `what`, where the two differ.
    """
    small, history = cut_filters(base, mask)
    agreement = agree_filters(
        base, context.graph, mask, small, context.images.read(context.rows(TEST)[:PROBES])
    )
    if not agreement.holds:
        raise MaskError(
            f"{what}: the masked model and the cut one differ by"
            f" {agreement.max_logit_difference:.3g} in a logit (allowed {agreement.tolerance:.3g})."
            " Nothing was kept of this trial."
        )
    return small, history, agreement


class DenseWeights(EachAlone):
    """Weights after fitting with plain cross-entropy, as arrays weights/<name>, and its curve as
    curve/<column>."""

    name = "dense_weights"

    def parts(self, context: ImageContext, shard: ImageShard) -> dict[str, Any]:
        return {"mirror": context.mirror}

    def table(self, context: ImageContext, shard: ImageShard) -> pd.DataFrame:
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
            context.partial(context.key(shard)),
            validator(context, replace(context.start, model=model), recipe),
        )
        weights = {f"weights/{name}": array for name, array in arrays_of(model).items()}
        return pack({**weights, **curve_arrays(curve)})

    def size(self, context: ImageContext, shard: ImageShard) -> float:
        return 3.0 * _recipe(context).epochs * len(context.rows(TRAIN))


def _recipe(context: ImageContext) -> Recipe:
    recipe = context.settings.train
    assert recipe is not None, "only what is to be trained has such a part"
    return recipe


class Original(EachAlone):
    """The dense model's probabilities of all training images, as they are (not mirrored), [n,
    classes] float32."""

    name = "original"
    any_threads = True

    def table(self, context: ImageContext, shard: ImageShard) -> pd.DataFrame:
        return pack({"probabilities": answers_of(context, context.dense, TRAIN)})

    def size(self, context: ImageContext, shard: ImageShard) -> float:
        return float(len(context.rows(TRAIN)))


class DenseAnswers(EachAlone):
    """The dense model's probabilities of all test images, and of the validation images, [n,
    classes] float32 each."""

    name = "dense_answers"
    any_threads = True

    def table(self, context: ImageContext, shard: ImageShard) -> pd.DataFrame:
        arrays = {"probabilities": answers_of(context, context.dense, TEST)}
        if len(context.rows(VALIDATION)):
            arrays["validation"] = answers_of(context, context.dense, VALIDATION)
        return pack(arrays)

    def size(self, context: ImageContext, shard: ImageShard) -> float:
        return float(len(context.rows(TEST)) + len(context.rows(VALIDATION)))


REPEATS = 15
BATCH = 8
"""Images per timed pass."""


class DenseCost(EachAlone):
    """Cost of the dense model. One row: flops, theoretical (dense over cut), parameters, bytes and
    latency.

    The columns of the latency are those of latency.latency_row.
    """

    name = "cost"
    version = 2
    any_threads = True
    pace = 1.6

    def parts(self, context: Any, shard: Any) -> dict[str, Any]:
        return {"repeats": REPEATS, "batch": BATCH, "threads": torch.get_num_threads()}

    def table(self, context: Any, shard: Any) -> pd.DataFrame:
        return cost_row(context, self.model_of(context, shard))

    def model_of(self, context: Any, shard: Any) -> Classifier:
        """The model whose cost is measured."""
        return context.dense

    def size(self, context: Any, shard: Any) -> float:
        return 2.0 * REPEATS * BATCH


def cost_row(context: ImageContext, small: Classifier) -> pd.DataFrame:
    """One row: FLOPs, parameters, bytes and latency in ms of a model, timed in turn with the dense
    one.

    Columns: flops, theoretical (FLOPs of the dense model over its own), parameters, bytes, and
    those of latency_row.
    """
    pixels = np.zeros((BATCH, small.size, small.size, 3), dtype=np.uint8)
    mine, theirs = (
        small.prepared(pixels),
        context.dense.prepared(pixels),
    )  # each in the order it runs best in
    own, dense = paired_latency(
        lambda: small.model(mine),
        lambda: context.dense.model(theirs),
        REPEATS,
        small.device,
        context.hooks.check,
    )
    flops = filter_graph(small).flops()
    sizes = [value.numel() * value.element_size() for value in small.model.state_dict().values()]
    row = {
        "flops": flops,
        "theoretical": context.graph.flops() / flops,
        "parameters": small.n_parameters,
        "bytes": sum(sizes),
        **latency_row(own, dense),
    }
    return pd.DataFrame([row])


def with_dense(package: str) -> dict[str, Measurement]:
    """Every measurement of a track's folder by name, and those of the dense model that it does not
    replace."""
    dense = (DenseCost(), DenseAnswers(), DenseWeights(), Original())
    return {one.name: one for one in dense} | named(package, Measurement)

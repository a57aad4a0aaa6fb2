"""The model that an audit of an image classifier starts from, and what run.json says of it and of
the images."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from engine.audit.session import counts_of
from engine.classifiers.images.context import ImageContext, ImageShard
from engine.classifiers.images.request import ImagePlan, ImagesRequest
from engine.models.load_image_classifier import Classifier, fresh_classifier, load_classifier
from engine.store.runs import Store


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


def data_meta(plan: ImagePlan, tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
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


def kept_in(store: Store | None) -> dict[str, Any]:
    """Where a context keeps finished measurements and unfinished fits; only in memory without a
    store."""
    return {} if store is None else {"keeper": store.shards, "partial": store.partial}

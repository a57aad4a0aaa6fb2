"""The whole audit of an image classifier on one page: validate, load, choose filters, cut, retrain, measure, write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.audit.executors import Executor
from engine.audit.image_arms import Arm, arms_of
from engine.audit.image_request import ImagePlan, ImageRequest, validate_images
from engine.audit.image_tables import image_tables
from engine.audit.image_warnings import image_warnings
from engine.audit.once import found_or_computed
from engine.audit.progress import Progress
from engine.audit.under_way import UnderWay, counts_of, timed
from engine.metrics.image_bench import ImageBench, ImageShard
from engine.models.load_classifier import Classifier, fresh_classifier, load_classifier
from engine.scores.image_kinds import image_kinds
from engine.scores.image_kinds.trial import chosen_shard
from engine.store.runs import Run, Store
from engine.surgery.filter_gates import prove_filter_mask_works
from engine.types import Hooks

ImageAudit = UnderWay[ImagePlan, ImageBench]


def run_image_audit(
    request: ImageRequest,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
) -> Run:
    """The finished run, computed or found. Raises RequestError before anything heavy loads, Cancelled when stopped.

    What was finished before an interruption is found in the store and not computed again; a training that was
    interrupted goes on from its last kept epoch.
    """
    plan = validate_images(request)
    return found_or_computed(store, plan.run_id, hooks, executor, lambda chosen: _audited(plan, store, hooks, chosen))


def _audited(plan: ImagePlan, store: Store, hooks: Hooks, executor: Executor) -> Run:
    """Choose filters, cut, retrain, measure, write."""
    audit, arms = open_image_audit(plan, store, hooks, executor), arms_of(plan.request)
    compute(audit, arms)
    with timed(audit.progress, "measure", "groups and intervals"):
        tables, notes = image_tables(audit.bench, plan.request, arms, hooks.check)
    return store.write(plan.run_id, run_meta(audit, tables, notes), tables)


def open_image_audit(plan: ImagePlan, store: Store, hooks: Hooks, executor: Executor) -> ImageAudit:
    """Load the model, and prove on this very model that masking filters changes something."""
    request, progress = plan.request, Progress(hooks.report)
    with timed(progress, "load", plan.model.name):
        bench = ImageBench(
            starting_model(plan), plan.images, request.settings(), image_kinds(), store.shards, hooks,
            partial=store.partial, mirror=request.mirrors, loss_share=request.loss_share,
        )  # fmt: skip
        prove_filter_mask_works(bench.start, bench.graph)
    return ImageAudit(plan, bench, progress, executor)


def starting_model(plan: ImagePlan) -> Classifier:
    """The model as the request names it: with its weights, or new where it is to be fitted first."""
    request, info = plan.request, plan.model
    if plan.is_fresh:
        return fresh_classifier(
            request.model, info.classes, info.size, request.first_seed, request.weights, request.device
        )
    return load_classifier(request.model, request.weights, classes=info.classes, size=info.size, device=request.device)


def compute(audit: ImageAudit, arms: Sequence[Arm]) -> None:
    """Every measurement of the run, the long ones first in the order they need each other."""
    trials = [shard for arm in arms for shard in arm.trials()]
    if audit.request.train is not None:
        audit.finish("train the dense model", [ImageShard("dense_weights")])
    audit.finish("ask the dense model", [ImageShard("original"), ImageShard("dense_answers")])
    audit.finish("choose filters", list(dict.fromkeys(chosen_shard(shard) for shard in trials)))
    audit.finish("cut and retrain", trials)
    audit.finish("measure cost", [ImageShard("cost"), *(arm.cost(speedup) for arm in arms for speedup in arm.speedups)])
    if audit.request.loss_share:
        audit.finish("share of the loss", [shard for arm in arms for shard in arm.loss_shares()])


def run_meta(audit: ImageAudit, tables: dict[str, pd.DataFrame], notes: Sequence[str]) -> dict[str, Any]:
    """run.json: what was asked, of which model, on which images, with which code, and what must be known about it."""
    plan, bench, request = audit.plan, audit.bench, audit.request
    return {
        **audit.meta(f"{plan.model.name} on {plan.images.name}", request.to_dict(), bench.start.device),
        "experiment": request.experiment,
        "model": model_meta(plan, bench),
        "data": data_meta(plan, tables),
        "warnings": image_warnings(plan, bench, tables, notes),
    }


def model_meta(plan: ImagePlan, bench: ImageBench) -> dict[str, Any]:
    """The model in run.json."""
    return {
        "name": plan.model.name,
        "architecture": bench.start.arch,
        "revision": None,
        "weight_hash": bench.dense.weight_hash,
        "starting_weight_hash": bench.start.weight_hash,
        "classes": list(bench.start.classes),
        "n_groups": len(bench.graph.groups),
        "n_filters": bench.graph.total,
        "layers": [list(pair) for pair in bench.graph.widths],
        "kept_whole": list(bench.graph.whole),
        "parameters": bench.start.n_parameters,
        "flops": bench.graph.flops(),
        "size": bench.start.size,
    }


def data_meta(plan: ImagePlan, tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """The images in run.json."""
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

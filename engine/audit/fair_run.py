"""A whole fair training on one page: validate, load, train and cut with every method, measure, write."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from engine.audit.begun import begin, ended
from engine.audit.executors import Executor
from engine.audit.fair_arms import FairArm, arms_of, surface_shards
from engine.audit.fair_request import FairPlan, FairRequest, group_shares, validate_fair
from engine.audit.fair_tables import fair_tables
from engine.audit.fair_warnings import fair_warnings
from engine.audit.image_run import data_meta, model_meta, starting_model
from engine.audit.once import found_or_computed
from engine.audit.progress import Forecast
from engine.audit.under_way import UnderWay, timed
from engine.files import json_able
from engine.metrics.fair_bench import CORNERS, FairBench, FairShard
from engine.metrics.image_bench import ImageShard
from engine.metrics.workbench import Workbench
from engine.scores.fair_kinds import fair_kinds
from engine.scores.fair_kinds._work import trained_shard
from engine.store.runs import Run, Store
from engine.surgery.filter_gates import prove_filter_mask_works
from engine.types import Hooks

FairAudit = UnderWay[FairPlan, FairBench]


def run_fair_audit(
    request: FairRequest,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
) -> Run:
    """The finished run, computed or found. Raises RequestError before anything heavy loads, Cancelled when stopped.

    What was finished before an interruption is found in the store and not computed again; a training that was
    interrupted goes on from its last kept step.
    """
    plan = validate_fair(request)
    return found_or_computed(store, plan.run_id, hooks, executor, lambda chosen: _audited(plan, store, hooks, chosen))


def _audited(plan: FairPlan, store: Store, hooks: Hooks, executor: Executor) -> Run:
    """Train, cut, measure, write."""
    begin(store, plan)
    audit, arms = open_fair_audit(plan, store, hooks, executor), arms_of(plan.request)
    compute(audit, arms)
    with timed(audit.progress, "measure", "groups and intervals"):
        targets = targets_of(audit.bench, plan.request)
        tables, notes = fair_tables(audit.bench, plan.request, arms, targets, hooks.check)
    run = store.write(plan.run_id, run_meta(audit, tables, targets, notes), tables)
    ended(store, plan)
    return run


def open_fair_audit(plan: FairPlan, store: Store, hooks: Hooks, executor: Executor) -> FairAudit:
    """Load the model, and prove on this very model that masking filters changes something."""
    progress = Forecast(hooks.report)
    with timed(progress, "load", plan.model.name):
        bench = bench_of(plan, store, hooks)
        prove_filter_mask_works(bench.start, bench.graph)
    return FairAudit(plan, bench, progress, executor)


def bench_of(plan: FairPlan, store: Store, hooks: Hooks) -> FairBench:
    """The bench of a plan, its measurements kept in the store."""
    return FairBench(
        starting_model(plan), plan.images, plan.request.settings(), fair_kinds(), store.shards, hooks,
        partial=store.partial, mirror=plan.request.mirrors,
    )  # fmt: skip


def compute(audit: FairAudit, arms: Sequence[FairArm]) -> None:
    """Every measurement of the run, in the order they need each other; how much there is, is known before it begins."""
    phases = phases_of(audit.request, arms)
    audit.progress.expect_in_all(sum(_size(audit.bench, shards) for shards in phases.values()))
    for phase, shards in phases.items():
        if shards:
            audit.finish(phase, shards)


def phases_of(request: FairRequest, arms: Sequence[FairArm]) -> dict[str, list[Any]]:
    """The measurements of a run by phase. Seeds come one after the other, so that every method has its first early."""
    surfaces = surface_shards(request)
    trained = [shard for seed in range(request.seeds) for arm in arms for shard in arm.shards() if shard.seed == seed]
    return {
        "train the dense model": [ImageShard("dense_weights")] if request.train is not None else [],
        "ask the dense model": [ImageShard("original"), ImageShard("dense_answers")],
        "train and cut": trained,
        "train BiFP and its ablations": _corners(surfaces, trained),
        "loss between models": surfaces,
        "measure cost": [ImageShard("cost"), *(arm.cost for arm in arms)],
    }


def _corners(surfaces: Sequence[FairShard], trained: Sequence[FairShard]) -> list[FairShard]:
    """Trainings that the loss surface needs and that nobody asked for otherwise."""
    needed = [trained_shard(shard, name) for shard in surfaces for name in (*CORNERS, shard.method)]
    return [shard for shard in dict.fromkeys(needed) if shard not in set(trained)]


def _size(bench: Workbench, shards: Sequence[Any]) -> float:
    return sum(bench.kind(shard.kind).size(bench, shard) for shard in shards)


def targets_of(bench: FairBench, request: FairRequest) -> dict[str, float]:
    """gap and accuracy on validation images that count as fair and as accurate: as asked, or by the dense model's.

    The gap is of the request's notion; where none was asked for it is half of the dense model's gap of accuracy, for
    degradation too, of which the dense model has none. NaN where fewer than two groups may be compared.
    """
    dense = bench.look.of(bench.look.dense)
    gap = dense["gap"] / 2 if request.fair_gap is None else request.fair_gap
    gap = gap if bench.look.compared.sum() > 1 else math.nan
    return {"gap": float(gap), "accuracy": float(dense["accuracy"] - request.within)}


def run_meta(
    audit: FairAudit, tables: dict[str, pd.DataFrame], targets: Mapping[str, float], notes: Sequence[str]
) -> dict[str, Any]:
    """run.json: what was asked, of which model, on which images, with which code, and what must be known about it."""
    plan, bench, request = audit.plan, audit.bench, audit.request
    shares = group_shares(plan.images, request.axes[0], bench.tuned)
    return {
        **audit.meta(f"{plan.model.name} trained fairly on {plan.images.name}", plan.spelled_out(), bench.start.device),
        "experiment": request.experiment,
        "model": model_meta(plan, bench),
        "data": {**data_meta(plan, tables), "fair_axis": request.axes[0], "group_shares": shares},
        "targets": json_able(dict(targets)),
        "warnings": fair_warnings(plan, bench, tables, targets, notes),
    }

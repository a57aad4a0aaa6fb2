"""The whole audit of a text classifier's heads on one page: validate, load, walk the procedures, measure, write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from engine.audit.begun import begin, ended
from engine.audit.executors import Executor
from engine.audit.once import found_or_computed
from engine.audit.progress import Forecast
from engine.audit.text_arms import Finished, TextArm, arms_of, walked
from engine.audit.text_forecast import forecast
from engine.audit.text_request import TextPlan, TextRequest, disk_faults, validate_text
from engine.audit.text_shards import cost_shards, dense_trials, importance_shards, lens_shards
from engine.audit.text_tables import text_tables
from engine.audit.text_warnings import text_warnings, truncated
from engine.audit.under_way import UnderWay, counts_of, timed
from engine.errors import RequestError
from engine.metrics.text_bench import TextBench, TextShard
from engine.models.load_text_classifier import load_text_classifier
from engine.scores.text_kinds import text_kinds
from engine.store.runs import Run, Store
from engine.surgery.mask import prove_mask_works
from engine.types import Hooks

TextAudit = UnderWay[TextPlan, TextBench]


def run_text_audit(
    request: TextRequest,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
) -> Run:
    """The finished run, computed or found. Raises RequestError before anything heavy loads, Cancelled when stopped.

    What was finished before an interruption is found in the store and not computed again, in the middle of a procedure
    too; a fine-tuning that was interrupted goes on from its last kept epoch.
    """
    plan = validate_text(request)
    return found_or_computed(store, plan.run_id, hooks, executor, lambda chosen: _audited(plan, store, hooks, chosen))


def _audited(plan: TextPlan, store: Store, hooks: Hooks, executor: Executor) -> Run:
    """Fine-tune, score, cut, measure, write."""
    if faults := disk_faults(plan.request, plan.model, store.root):
        raise RequestError(faults)
    begin(store, plan)
    audit, arms = open_text_audit(plan, store, hooks, executor), arms_of(plan.request)
    finished = compute(audit, arms)
    with timed(audit.progress, "measure", "groups and intervals"):
        tables, notes = text_tables(audit.bench, plan.request, arms, finished, hooks.check)
    run = store.write(plan.run_id, run_meta(audit, tables, notes), tables)
    ended(store, plan)
    return run


def open_text_audit(plan: TextPlan, store: Store, hooks: Hooks, executor: Executor) -> TextAudit:
    """Load the model, and prove on this very model that masking heads changes something."""
    progress = Forecast(hooks.report)
    with timed(progress, "load", plan.model.name):
        bench = bench_of(plan, store, hooks)
        prove_mask_works(bench.any_model)
    return TextAudit(plan, bench, progress, executor)


def bench_of(plan: TextPlan, store: Store, hooks: Hooks) -> TextBench:
    """The bench of a plan, its measurements kept in the store."""
    request = plan.request
    load = partial(load_text_classifier, classes=plan.texts.classes, device=request.device, max_length=plan.max_length)
    name = plan.start_name
    return TextBench(
        start=None if name is None else lambda seed: load(name, new_head=True, seed=seed),
        brought=None if plan.retune else load(request.model),
        identity=plan.identity,
        texts=plan.texts, settings=plan.settings(), kinds=text_kinds(), keeper=store.shards, hooks=hooks,
        partial=store.partial,
    )  # fmt: skip


def compute(audit: TextAudit, arms: Sequence[TextArm]) -> Finished:
    """Every measurement of the run; procedures round by round, each as far as it knows its own next cut."""
    bench, trials = audit.bench, range(audit.plan.request.trials)
    audit.progress.expect_in_all(forecast(bench, arms))
    audit.finish("fine-tune the full model", dense_trials(bench, len(trials)))
    while True:
        walks = [walked(bench, arm, trial) for arm in arms for trial in trials]
        needed = dict.fromkeys(shard for walk in walks for shard in walk.needed)
        missing = [shard for shard in needed if not bench.kept(shard)]
        if not missing and all(walk.finished for walk in walks):
            break
        audit.finish("score, cut and fine-tune", missing)
    finished = Finished.of(bench, arms)
    audit.finish("importance before and after fine-tuning", importance_shards(bench, arms, len(trials)))
    audit.finish("attention lens", list(lens_shards(bench, arms, finished).values()))
    audit.finish("measure cost", [TextShard("text_cost"), *cost_shards(arms, finished).values()])
    return finished


def run_meta(audit: TextAudit, tables: dict[str, pd.DataFrame], notes: Sequence[str]) -> dict[str, Any]:
    """run.json: what was asked, of which model, on which texts, with which code, and what must be known about it."""
    plan, bench = audit.plan, audit.bench
    longer = truncated(bench)
    return {
        **audit.meta(f"{plan.model.name} on {plan.texts.name}", plan.spelled_out(), bench.any_model.device),
        "model": _model(plan, bench),
        "data": _data(plan, tables, longer),
        "warnings": text_warnings(plan, bench, tables, notes, longer),
    }


def _model(plan: TextPlan, bench: TextBench) -> dict[str, Any]:
    return {
        "name": plan.model.name,
        "model_type": plan.model.model_type,
        "revision": plan.model.revision,
        "weight_hash": plan.model.weight_hash,
        "pretrained": plan.start_name,
        "pretrained_hash": None if plan.start is None else plan.start.weight_hash,
        "retuned": plan.retune,
        "n_layers": plan.model.n_layers,
        "n_heads": plan.model.n_heads,
        "parameters": bench.any_model.n_parameters,
        "classes": list(plan.texts.classes),
        "max_length": plan.max_length,
    }


def _data(plan: TextPlan, tables: dict[str, pd.DataFrame], longer: Mapping[str, int]) -> dict[str, Any]:
    texts = plan.texts
    return {
        "name": texts.name,
        "digest": texts.digest,
        "notes": list(texts.notes),
        "stand_in": texts.stand_in,
        "metric": texts.metric,
        "classes": list(texts.classes),
        "groups": list(texts.groups),
        "pair": bool(texts.pair),
        "counts": counts_of(tables),
        "texts": {str(split): int(n) for split, n in texts.table["split"].value_counts().items()},
        "truncated": dict(longer),
    }

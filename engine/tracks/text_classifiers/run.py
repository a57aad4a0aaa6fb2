"""The whole audit of a text classifier's heads on one page: validate, load, walk the procedures,
measure, write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from engine.audit.executors import Executor
from engine.audit.progress import Progress
from engine.audit.session import Session, Tables, counts_of, run_session, timed
from engine.core.errors import RequestError
from engine.core.types import Hooks
from engine.models.load_text_classifier import load_text_classifier
from engine.store.runs import Run, Store
from engine.tracks.text_classifiers.arms import Finished, TextArm, arms_of, walked
from engine.tracks.text_classifiers.captum_layers import prove_conductance
from engine.tracks.text_classifiers.context import TEST, TRAIN, TextContext, TextShard
from engine.tracks.text_classifiers.forecast import forecast
from engine.tracks.text_classifiers.measurements import text_measurements
from engine.tracks.text_classifiers.request import TextPlan, TextRequest, disk_faults, validate_text
from engine.tracks.text_classifiers.shards import (
    cost_shards,
    dense_trials,
    importance_shards,
    lens_shards,
    null_shards,
    truth_shards,
)
from engine.tracks.text_classifiers.tables import text_tables
from engine.tracks.text_classifiers.warnings import at_chance, text_warnings, truncated

TextAudit = Session[TextPlan, TextContext]


def run_text_audit(
    request: TextRequest,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
) -> Run:
    """The finished run, computed or found. Raises RequestError before anything heavy loads,
    Cancelled when stopped.

    What was finished before an interruption is found in the store and not computed again, in the
    middle of a procedure too; a fine-tuning that was interrupted goes on from its last kept epoch.
    """
    plan = validate_text(request)
    return run_session(
        plan, store, hooks, executor, lambda chosen: _audited(plan, store, hooks, chosen)
    )


def _audited(
    plan: TextPlan, store: Store, hooks: Hooks, executor: Executor
) -> tuple[dict[str, Any], Tables]:
    """Fine-tune, score, cut, measure."""
    if faults := disk_faults(plan.request, plan.model, store.root):
        raise RequestError(faults)
    audit, arms = open_text_audit(plan, store, hooks, executor), arms_of(plan.request)
    finished = compute(audit, arms)
    with timed(audit.progress, "measure", "groups and intervals"):
        tables, notes = text_tables(audit.context, plan.request, arms, finished, hooks.check)
    return run_meta(audit, tables, notes), tables


def open_text_audit(plan: TextPlan, store: Store, hooks: Hooks, executor: Executor) -> TextAudit:
    """Load the model, and prove on this very model that masking changes something and that
    conductance is Captum's."""
    progress = Progress(hooks.report)
    with timed(progress, "load", plan.model.name):
        context = context_of(plan, store, hooks)
        context.prove()
        context.proof = _proof(context)
    return TextAudit(plan, context, progress, executor)


def _proof(context: TextContext) -> dict[str, Any]:
    """That conductance here is Captum's, on the first training text."""
    row = context.table(TRAIN).head(1)
    texts, second = context.pairs(row)
    found = prove_conductance(
        context.any_model, texts[0], second[0] if second else None, context.hooks.check
    )
    return {**found, "text": str(row["text_id"].iat[0])}


def context_of(plan: TextPlan, store: Store | None = None, hooks: Hooks = Hooks()) -> TextContext:  # noqa: B008  (frozen)
    """What a plan is measured in; measurements are kept in the store, in memory where there is
    none."""
    request = plan.request
    load = partial(
        load_text_classifier,
        classes=plan.texts.classes,
        device=request.device,
        max_length=plan.max_length,
    )
    name = plan.start_name
    kept: dict[str, Any] = (
        {} if store is None else {"keeper": store.shards, "partial": store.partial}
    )
    return TextContext(
        start=None if name is None else lambda seed: load(name, new_head=True, seed=seed),
        brought=None if plan.retune else load(request.model),
        identity=plan.identity,
        texts=plan.texts,
        settings=plan.settings(),
        kinds=text_measurements(),
        hooks=hooks,
        plan=plan,
        **kept,
    )


def compute(audit: TextAudit, arms: Sequence[TextArm]) -> Finished:
    """Every measurement of the run; procedures round by round, each as far as it knows its own next
    cut."""
    context, trials = audit.context, range(audit.plan.request.trials)
    audit.progress.expect_in_all(forecast(context, arms))
    full = dense_trials(context, len(trials))
    audit.finish("fine-tune the full model", full[:1])
    if doubt := at_chance(context.answers(full[0]), context.table(TEST)["label"].to_numpy()):
        audit.progress.tell(doubt)
    audit.finish("fine-tune the full model", full[1:])
    while True:
        walks = [walked(context, arm, trial) for arm in arms for trial in trials]
        needed = dict.fromkeys(shard for walk in walks for shard in walk.needed)
        missing = [shard for shard in needed if not context.kept(shard)]
        if not missing and all(walk.finished for walk in walks):
            break
        audit.finish("score, cut and fine-tune", missing)
    finished = Finished.of(context, arms)
    audit.finish(
        "importance before and after fine-tuning", importance_shards(context, arms, len(trials))
    )
    audit.finish("random masks", list(null_shards(context, arms).values()))
    audit.finish("every head silenced alone", truth_shards(context, len(trials)))
    audit.finish("attention lens", list(lens_shards(context, arms, finished).values()))
    audit.finish("measure cost", [TextShard("text_cost"), *cost_shards(arms, finished).values()])
    return finished


def run_meta(
    audit: TextAudit, tables: dict[str, pd.DataFrame], notes: Sequence[str]
) -> dict[str, Any]:
    """run.json: what was asked, of which model, on which texts, with which code, and what must be
    known about it."""
    plan, context = audit.plan, audit.context
    longer = truncated(context)
    usual = audit.meta(f"{plan.model.name} on {plan.texts.name}")
    return {
        **usual,
        "provenance": {**usual["provenance"], "conductance": dict(context.proof)},
        "model": _model(plan, context),
        "data": _data(plan, tables, longer),
        "warnings": text_warnings(plan, context, tables, notes, longer),
    }


def _model(plan: TextPlan, context: TextContext) -> dict[str, Any]:
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
        "parameters": context.any_model.n_parameters,
        "classes": list(plan.texts.classes),
        "max_length": plan.max_length,
    }


def _data(
    plan: TextPlan, tables: dict[str, pd.DataFrame], longer: Mapping[str, int]
) -> dict[str, Any]:
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

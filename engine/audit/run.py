"""The whole audit on one page: validate, load, score, select, measure, write."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from engine.audit.executors import Executor, Local
from engine.audit.measured import Measured, wanted_shards
from engine.audit.once import found_or_computed
from engine.audit.predict import prediction
from engine.audit.progress import Progress
from engine.audit.provenance import provenance
from engine.audit.request import SEARCH, AuditRequest, Plan, validate
from engine.audit.search import search_gammas, search_shards
from engine.audit.variants import Variant, all_variants, variant_table, with_gamma
from engine.files import json_able
from engine.metrics.bench import Bench, Shard
from engine.models.judge import load_judge
from engine.models.load import load_language_model
from engine.scores.base import VALIDATION, ScoreJob, ScoreMethod, extra_kinds, method_for
from engine.selection.base import Ballot, selection_method
from engine.store.runs import Run, Store
from engine.surgery.centre import centred, means_of, means_table
from engine.surgery.mask import prove_mask_works
from engine.types import POOLED, Hooks


@dataclass
class Audit:
    """One audit under way."""

    plan: Plan
    bench: Bench
    job: ScoreJob
    progress: Progress
    executor: Executor
    scoring: dict[str, Any] = field(default_factory=dict)
    """What each score method decided and spent."""

    @property
    def request(self) -> AuditRequest:
        return self.plan.request


def run_audit(
    request: AuditRequest,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
) -> Run:
    """The finished run, computed or found. Raises RequestError before anything heavy loads, Cancelled when stopped.

    What was finished before an interruption is found in the store and not computed again.
    """
    plan = validate(request)
    return found_or_computed(
        store, plan.run_id, hooks, executor, lambda chosen: _audited(open_audit(plan, store, hooks, chosen), store)
    )


def _audited(audit: Audit, store: Store) -> Run:
    """Score, choose, measure, write."""
    plan, request = audit.plan, audit.request
    if method_for("z_bias", request.estimator).pilots:
        audit.scoring["predicted"] = prediction(audit)
    scores = score_heads(audit)
    variants, gammas = choose_variants(audit, scores)
    tables = measure(audit, variants)
    tables["scores"] = scores
    if audit.bench.lm.means is not None:
        tables["head_means"] = means_table(audit.bench.lm.means, audit.bench.lm.n_heads)
    tables["variants"] = variant_table(variants, audit.bench.lm.n_layers, audit.bench.lm.n_heads)
    return store.write(plan.run_id, run_meta(audit, gammas, tables), tables)


def open_audit(plan: Plan, store: Store, hooks: Hooks, executor: Executor) -> Audit:
    """Load model and judge, and prove on this very model that masking a head changes something."""
    request, progress = plan.request, Progress(hooks.report)
    start = time.monotonic()
    progress.say("load", plan.model.name)
    lm = load_language_model(request.model, device=request.device, dtype=request.dtype, revision=request.revision)
    judge = load_judge(request.judge, request.judge_sha256, device=str(lm.device))
    bench = Bench(lm, judge, plan.prompts, plan.corpus, request.settings(), store.shards, hooks, extra=extra_kinds())
    if request.ablation == "mean":
        bench = with_means(bench)
    prove_mask_works(bench.lm)
    progress.spent["load"] = time.monotonic() - start
    job = ScoreJob(
        bench,
        request.axes,
        request.seed_list,
        request.reading,
        options=request.estimator_settings,
        gammas=request.gammas,
        sparsities=request.sparsities,
    )
    return Audit(plan, bench, job, progress, executor)


def with_means(bench: Bench) -> Bench:
    """The same bench, but heads that are off hand over their mean over the validation text."""
    table = bench.fetch([Shard("head_means", split=VALIDATION)])[0]
    return replace(bench, lm=centred(bench.lm, means_of(table, bench.lm.n_layers)))


def needed_scores(request: AuditRequest) -> list[ScoreMethod]:
    """z_bias and z_ppl always, the rest where a method asks for it; z_bias last, for it may build on the others."""
    wanted = {"z_bias", "z_ppl"} | {score for name in request.methods for score in selection_method(name).needs}
    chosen = {"z_bias": request.estimator, "z_ppl": request.perplexity_estimator}
    ordered = sorted(wanted, key=lambda score: (score == "z_bias", score))
    return [method_for(score, chosen.get(score)) for score in ordered]


def scores_only(
    request: AuditRequest,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
) -> pd.DataFrame:
    """One row per head: layer, head, z_bias with interval per axis, z_ppl with interval, critical, n, seeds.

    No variant is built. Shares its shards with `run_audit`, so an audit that follows finds the scores finished. Axes
    whose heads were not ranked have empty columns and a sentence in `attrs["notes"]`.
    """
    plan = validate(request)
    store.prove_writable()
    with closing(executor or Local()) as executor:
        audit = open_audit(plan, store, hooks, executor)
        table = heads_wide(score_heads(audit), request)
    table.attrs["notes"] = not_ranked(audit.scoring)
    return table


def heads_wide(scores: pd.DataFrame, request: AuditRequest) -> pd.DataFrame:
    """Pooled scores, one row per head."""
    pooled = scores[scores["seed"] == POOLED]
    wide = pooled[["unit", "layer", "head"]].drop_duplicates().sort_values("unit", ignore_index=True)
    for axis in ("", *request.axes):
        for score, part in pooled[pooled["axis"] == axis].groupby("score"):
            name = f"{score}_{axis}" if axis else score
            columns = {"value": name, "low": f"{name}_low", "high": f"{name}_high"}
            columns = {
                old: new
                for old, new in columns.items()
                if old == "value" or score == "z_bias" or part[old].notna().any()
            }
            part = part[["unit", *columns]].rename(columns=columns)
            wide = wide.merge(part, on="unit", validate="one_to_one")
    ballot = Ballot({"z_ppl": wide["z_ppl"].to_numpy()}, len(wide), 0.0, float(request.gamma))
    wide["critical"] = wide["unit"].isin(ballot.critical)
    for axis in request.axes:
        wide[f"n_{axis}"] = int(pooled[pooled["axis"] == axis]["n"].max())
    return wide.drop(columns="unit").assign(seeds=request.seeds)


def score_heads(audit: Audit) -> pd.DataFrame:
    """All head scores, from validation prompts and validation text only."""
    tables = []
    for method in needed_scores(audit.request):
        finish(audit, method)
        audit.progress.say("score heads", method.score)
        table = method.table(audit.job)
        tables.append(table)
        known = {method.score: table["value"].to_numpy()} if (table["axis"] == "").all() else {}
        audit.job = replace(audit.job, known={**audit.job.known, **known})
        audit.scoring |= {method.score: report} if (report := method.report(audit.job)) else {}
    return pd.concat(tables, ignore_index=True)


def finish(audit: Audit, method: ScoreMethod) -> None:
    """Compute what the method asks for until it asks for nothing new."""
    done: set[Shard] = set()
    while wanted := [shard for shard in method.shards(audit.job) if shard not in done]:
        audit.executor.run(audit.bench, "score heads", wanted, audit.progress)
        done |= set(wanted)


def choose_variants(audit: Audit, scores: pd.DataFrame) -> tuple[list[Variant], dict[str, float]]:
    """Every variant, with γ* chosen on validation where it is searched, and γ per axis."""
    request = audit.request
    variants = all_variants(request, scores, audit.job.total)
    if request.gamma != SEARCH:
        return variants, {axis: float(request.gamma) for axis in request.axes}
    audit.executor.run(audit.bench, "search γ", search_shards(request, variants), audit.progress)
    gammas = search_gammas(audit.bench, request, variants)
    return with_gamma(variants, gammas), gammas


def measure(audit: Audit, variants: Sequence[Variant]) -> dict[str, pd.DataFrame]:
    """Everything reported: on test prompts and test text for the chosen variants, on validation for the γ search."""
    audit.executor.run(audit.bench, "measure variants", wanted_shards(audit.request, variants), audit.progress)
    audit.progress.say("statistics", "intervals and null bands")
    start = time.monotonic()
    tables = Measured(audit.bench, audit.request, audit.progress).tables(variants)
    audit.progress.spent["statistics"] = time.monotonic() - start
    return tables


def run_meta(audit: Audit, gammas: dict[str, float], tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """run.json, without the list of tables."""
    plan, bench, request = audit.plan, audit.bench, audit.request
    counts = plan.prompts.table.groupby(["axis", "split"]).size()
    return {
        "title": request.title or f"{bench.lm.name}: {', '.join(request.axes)}",
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "request": request.to_dict(),
        "model": {
            "name": bench.lm.name,
            "revision": bench.lm.revision,
            "weight_hash": bench.lm.weight_hash,
            "model_type": plan.model.model_type,
            "n_layers": bench.lm.n_layers,
            "n_heads": bench.lm.n_heads,
            "parameters": bench.lm.n_parameters,
        },
        "prompts": {
            "name": plan.prompts.name,
            "digest": plan.prompts.digest,
            "notes": list(plan.prompts.notes),
            "counts": {f"{axis}/{split}": int(n) for (axis, split), n in counts.items()},
        },
        "corpus": {
            "name": plan.corpus.name,
            "digest": plan.corpus.digest,
            "tokens": {split: len(tokens) for split, tokens in bench.tokens.items()},
        },
        "judge": {"name": bench.judge.info.name, "hash": bench.judge.info.digest, "note": bench.judge.info.note},
        "gamma": gammas,
        "scoring": json_able(audit.scoring),
        "provenance": provenance(bench),
        "warnings": warnings_of(request, tables, plan.model.vocab_size) + not_ranked(audit.scoring),
        "spent": {phase: round(seconds, 2) for phase, seconds in audit.progress.spent.items()},
    }


def not_ranked(scoring: dict[str, Any]) -> list[str]:
    """One sentence per axis whose heads were not ranked."""
    from engine.words import axis_name

    found = scoring.get("z_bias", {}).items()
    return [f"Heads for {axis_name(axis)} were {said['note']}." for axis, said in found if said.get("note")]


def warnings_of(request: AuditRequest, tables: dict[str, pd.DataFrame], vocab_size: int) -> list[str]:
    """What a reader must know before reading any chart of this run."""
    from engine.words import null_warning, perplexity_warning, small_group_warning

    results, groups = tables["results"], tables["groups"]
    dense = results[(results["variant"] == "dense") & (results["metric"] == f"bias:{request.reading}")]
    inside = dense[(dense["split"] == "test") & (dense["value"] <= dense["null_high"])]
    warnings = [null_warning(row.axis, row.value, row.null_high, int(row.n)) for row in inside.itertuples()]
    for axis, rows in groups[(groups["variant"] == "dense") & (groups["metric"] == "toxicity")].groupby("axis"):
        few = rows[rows["verdict"] != ""]
        if len(few):
            warnings.append(small_group_warning(axis, few["group"].tolist(), len(rows)))
    dense = results[
        (results["variant"] == "dense") & (results["metric"] == "perplexity") & (results["split"] == "test")
    ]
    if len(dense) and (value := float(dense["value"].iloc[0])) > vocab_size:
        warnings.append(perplexity_warning(value, vocab_size))
    return warnings

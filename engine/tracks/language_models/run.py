"""The whole audit on one page: validate, load, score, select, measure, write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from engine.audit.session import Executor, Local, Tables, run_session, timed
from engine.core.files import json_able
from engine.core.types import POOLED, Hooks
from engine.core.words import BY_HAND
from engine.report.phrasing import SAME
from engine.store.runs import Run, Store
from engine.store.tables import where
from engine.surgery.heads.mask import means_table
from engine.surgery.heads.replay import shape_of
from engine.surgery.named import mask_of
from engine.tracks.language_models.arms import arm_variants, unreached
from engine.tracks.language_models.benchmark_tables import measured_benchmarks
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.controls import (
    control_shards,
    expect,
    expect_scoring,
    measure_controls,
    until_drawn,
    with_measuring,
)
from engine.tracks.language_models.effects import head_groups
from engine.tracks.language_models.evidence import DRAWN, drawn_of, looks, power_of
from engine.tracks.language_models.evidence import said as said_drawn
from engine.tracks.language_models.groups import UNUSABLE
from engine.tracks.language_models.opening import Audit, open_audit
from engine.tracks.language_models.predict import prediction
from engine.tracks.language_models.request import SEARCH, AuditRequest, prompt_plan_of, validate
from engine.tracks.language_models.scores.base import ScoreMethod, no_scores
from engine.tracks.language_models.selection.base import critical_heads
from engine.tracks.language_models.tables import TEST, VALIDATION, Measured, wanted_shards
from engine.tracks.language_models.variants import (
    Variant,
    all_variants,
    dense_variant,
    search_gammas,
    search_shards,
    variant_table,
    with_gamma,
)

SPLITS = (TEST, VALIDATION)
"""Splits of the prompts that were asked for."""


def run_audit(
    request: AuditRequest,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
) -> Run:
    """The finished run, computed or found. Raises RequestError before anything heavy loads,
    Cancelled when stopped.

    What was finished before an interruption is found in the store and not computed again.
    """
    plan = validate(request)
    return run_session(
        plan,
        store,
        hooks,
        executor,
        lambda chosen: _audited(open_audit(plan, store, hooks, chosen)),
    )


def _audited(audit: Audit) -> tuple[dict[str, Any], Tables]:
    """Score, choose, measure."""
    request, audit.job = audit.request, with_measuring(audit)
    expect_scoring(audit, request.scores)
    for method in request.scores:
        if method.score == "z_bias" and method.pilots:
            until_drawn(audit)
            audit.scoring["predicted"] = prediction(audit)
            look(audit, method)
    scores = score_heads(audit, lambda unfinished: expect_scoring(audit, unfinished))
    expect_scoring(audit, ())
    variants, gammas = choose_variants(audit, scores)
    variants += arm_variants(audit.plan, audit.context.lm)
    kept = [variant for variant in variants if variant.chosen]
    expect(audit, [*wanted_shards(request, variants), *control_shards(request, scores, kept)])
    tables = measure(audit, variants)
    tables |= measured_benchmarks(audit, variants, tables["results"])
    tables["scores"] = scores
    tables["head_groups"] = head_groups(audit.job, scores, audit.scoring.get("z_bias", {}))
    tables["controls"] = measure_controls(audit, scores, variants)
    audit.progress.over("controls")
    if audit.context.lm.means is not None:
        tables["head_means"] = means_table(audit.context.lm.means, audit.context.lm.n_heads)
    tables["variants"] = variant_table(
        variants, audit.context.lm.n_layers, audit.context.lm.n_heads
    )
    return run_meta(audit, gammas, tables), tables


def scores_only(
    request: AuditRequest,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
) -> pd.DataFrame:
    """One row per head: layer, head, z_bias with interval per axis, z_ppl with interval, critical,
    n, seeds.

    No variant is built. Shares its shards with `run_audit`, so an audit that follows finds the
    scores finished. Axes whose heads were not ranked have empty columns and a sentence in
    `attrs["notes"]`.
    """
    plan = validate(request)
    store.prove_writable()
    with closing(executor or Local()) as executor:
        audit = open_audit(plan, store, hooks, executor)
        audit.job = with_measuring(audit)
        table = heads_wide(
            score_heads(audit, methods=request.scored_by("z_bias", "z_ppl")), request
        )
    table.attrs["notes"] = not_ranked(audit.scoring)
    return table


def heads_wide(scores: pd.DataFrame, request: AuditRequest) -> pd.DataFrame:
    """Pooled scores, one row per head."""
    pooled = scores[scores["seed"] == POOLED]
    wide = (
        pooled[["unit", "layer", "head"]].drop_duplicates().sort_values("unit", ignore_index=True)
    )
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
    wide["critical"] = wide["unit"].isin(
        critical_heads(wide["z_ppl"].to_numpy(), float(request.gamma))
    )
    for axis in request.axes:
        wide[f"n_{axis}"] = int(pooled[pooled["axis"] == axis]["n"].max())
    return wide.drop(columns="unit").assign(seeds=request.seeds)


def look(audit: Audit, method: ScoreMethod) -> None:
    """Draw first what tells whether axes will be ranked at all, and say what is left then."""
    while wanted := method.looks(audit.job):
        audit.finish("predict", wanted)
    expect_scoring(audit, audit.request.scores)


def score_heads(
    audit: Audit,
    expecting: Callable[[Sequence[ScoreMethod]], None] = lambda unfinished: None,
    methods: Sequence[ScoreMethod] | None = None,
) -> pd.DataFrame:
    """All head scores, from validation prompts and validation text only; no row where nothing asks
    for one.

    expecting: told the methods that are not finished, whenever it was decided what they measure
    next. methods: those that are asked for; None: by what is cut.
    """
    tables, methods = [], audit.request.scores if methods is None else methods
    for place, method in enumerate(methods):
        score(audit, method, partial(expecting, methods[place:]))
        audit.progress.say("score heads", method.score)
        table = method.table(audit.job)
        tables.append(table)
        known = {method.score: table["value"].to_numpy()} if (table["axis"] == "").all() else {}
        audit.job = replace(audit.job, known={**audit.job.known, **known})
        audit.scoring |= {method.score: report} if (report := method.report(audit.job)) else {}
    scores = pd.concat(tables, ignore_index=True) if tables else no_scores()
    audit.scoring["power"] = power_of(scores)
    return scores


def score(audit: Audit, method: ScoreMethod, decided: Callable[[], None] = lambda: None) -> None:
    """Compute what the method asks for until it asks for nothing new; decided: called before each
    time."""
    done: set[Shard] = set()
    while wanted := [shard for shard in method.shards(audit.job) if shard not in done]:
        decided()
        audit.finish("score heads", wanted)
        done |= set(wanted)


def choose_variants(audit: Audit, scores: pd.DataFrame) -> tuple[list[Variant], dict[str, float]]:
    """Every variant, with γ* chosen on validation where it is searched, and γ per axis."""
    request = audit.request
    shape = shape_of(audit.context.lm.model.config) if request.deployable else None
    variants = all_variants(request, scores, audit.job.total, shape)
    if request.gamma != SEARCH:
        return variants, {axis: float(request.gamma) for axis in request.axes}
    audit.finish("search γ", search_shards(request, variants))
    found = search_gammas(audit.context, request, variants)
    audit.scoring["gamma"] = {axis: search.to_dict() for axis, search in found.items()}
    gammas = {axis: search.chosen for axis, search in found.items()}
    return with_gamma(variants, gammas), gammas


def measure(audit: Audit, variants: Sequence[Variant]) -> dict[str, pd.DataFrame]:
    """Everything reported: on test prompts and test text for the chosen variants, on validation for
    the γ search. With all seeds, or with the first that make intervals as narrow as asked."""
    for drawn in looks(audit.request):
        audit.drawn = drawn
        audit.finish("measure variants", wanted_shards(drawn, variants))
        with timed(audit.progress, "statistics", "intervals and null bands"):
            tables = Measured(audit.context, drawn, audit.progress).tables(variants)
        if (
            audit.request.stop_at is not None
            and drawn_of(tables["results"], drawn, audit.request).is_narrow
        ):
            break
    return tables


def run_meta(
    audit: Audit, gammas: dict[str, float], tables: dict[str, pd.DataFrame]
) -> dict[str, Any]:
    """run.json, without the list of tables."""
    plan, context, request = audit.plan, audit.context, audit.request
    asked = plan.prompts.table[plan.prompts.table["split"].isin(SPLITS)]
    counts = asked.groupby(["axis", "split"]).size()
    drawn: dict[str, Any] = {}
    if request.stop_at is not None:
        drawn = {DRAWN: drawn_of(tables["results"], audit.drawn or request, request).to_dict()}
    return {
        **audit.meta(f"{context.lm.name}: {', '.join(request.axes)}"),
        **drawn,
        "model": {
            "name": context.lm.name,
            "revision": context.lm.revision,
            "weight_hash": context.lm.weight_hash,
            "model_type": plan.model.model_type,
            "n_layers": context.lm.n_layers,
            "n_heads": context.lm.n_heads,
            "parameters": context.lm.n_parameters,
            **({"notes": plan.of_model} if plan.of_model else {}),
            **({"in_chat": plan.in_chat} if plan.in_chat else {}),
            **({"read": context.lm.adapter.how} if context.lm.adapter.how else {}),
        },
        "prompts": {
            "name": plan.prompts.name,
            "digest": plan.prompts.digest,
            "notes": list(plan.prompts.notes),
            "own_split": plan.prompts.own_split,
            "counts": {f"{axis}/{split}": int(n) for (axis, split), n in counts.items()},
        },
        "corpus": {
            "name": plan.corpus.name,
            "digest": plan.corpus.digest,
            "tokens": {split: len(tokens) for split, tokens in context.tokens.items()},
        },
        "judge": {
            "name": context.judge.info.name,
            "hash": context.judge.info.digest,
            "note": context.judge.info.note,
        },
        "gamma": gammas,
        "scoring": json_able(audit.scoring),
        "warnings": (
            as_proved(plan, context.lm.adapter.how)
            + unreached(plan, context.lm)
            + warnings_of(request, tables, plan.model.vocab_size)
            + unusable(tables)
            + not_ranked(audit.scoring)
            + unscored(request)
            + stopped(drawn)
        ),
    }


def as_proved(plan: Any, how: str) -> list[str]:
    """The plan's warnings; how the model was read, as the loaded model showed it."""
    return [how if warning == plan.model.how else warning for warning in plan.warnings]


def stopped(drawn: dict[str, Any]) -> list[str]:
    """One sentence where drawing could stop before all seeds; drawn: what run.json says of it."""
    from engine.core.words import axis_name

    return [said_drawn(drawn, axis_name(drawn[DRAWN]["axis"]))] if drawn else []


def not_ranked(scoring: dict[str, Any]) -> list[str]:
    """One sentence per axis whose heads were not ranked."""
    from engine.core.words import axis_name

    found = scoring.get("z_bias", {}).items()
    return [
        f"Heads for {axis_name(axis)} were {said['note']}."
        for axis, said in found
        if said.get("note")
    ]


def unscored(request: AuditRequest) -> list[str]:
    """One sentence where no method asks for effects of heads on bias."""
    from engine.tracks.language_models.words import not_scored

    asked = {method.score for method in request.scores}
    return [not_scored()] if "z_bias" not in asked else []


def unusable(tables: dict[str, pd.DataFrame]) -> list[str]:
    """One sentence per variant that is no model any more."""
    from engine.tracks.language_models import arm_words, words

    groups = tables["groups"]
    lost = groups.loc[groups["verdict"] == UNUSABLE, "variant"].unique() if len(groups) else ()
    rows = tables["variants"].set_index("variant", drop=False).loc[list(lost)].to_dict("records")
    return [
        words.unusable(arm_words.does(row) if arm_words.is_arm(row) else row["variant"])
        for row in rows
    ]


def warnings_of(
    request: AuditRequest, tables: dict[str, pd.DataFrame], vocab_size: int
) -> list[str]:
    """What a reader must know before reading any chart of this run."""
    from engine.tracks.language_models.words import (
        group_warning,
        no_interval_warning,
        null_warning,
        perplexity_warning,
        small_group_warning,
    )

    results, groups = tables["results"], tables["groups"]
    dense = where(results, variant="dense", metric=f"bias:{request.reading}")
    dense = dense[dense["split"] == "test"]
    inside = dense["value"] <= dense["null_high"] + SAME
    is_scored = any(method.score == "z_bias" for method in request.scores)
    warnings = [
        null_warning(row.axis, row.value, row.null_high, int(row.n), is_scored)
        for row in dense[inside].itertuples()
    ]
    warnings += [no_interval_warning(axis) for axis in dense.loc[dense["low"].isna(), "axis"]]
    words = dense[~inside & ~(dense["value"] > dense["group_null_high"] + SAME)]
    warnings += [
        group_warning(row.axis, row.value, row.group_null_high, row.group_note)
        for row in words.itertuples()
    ]
    for axis, rows in where(groups, variant="dense", metric="toxicity").groupby("axis"):
        warnings += [
            small_group_warning(axis, few["group"].tolist(), len(rows), reason)
            for reason, few in rows[rows["verdict"] != ""].groupby("verdict")
        ]
    dense = where(results, variant="dense", metric="perplexity", split="test")
    if len(dense) and (value := float(dense["value"].iloc[0])) > vocab_size:
        warnings.append(perplexity_warning(value, vocab_size))
    return warnings


# Heads chosen by hand, measured as an audit measures its variants.


def measure_by_hand(run: Run, cut: Sequence[tuple[int, int]], store: Store) -> pd.DataFrame:
    """Rows of `results` for the dense model and for the model without the heads `cut`, (layer,
    head) from 0, on the test prompts and test text of the run. RequestError for heads that the
    model does not have."""
    plan, mask = prompt_plan_of(run), mask_of(run, cut)
    store.prove_writable()
    audit = open_audit(plan, store, Hooks(), Local())
    chosen = Variant(BY_HAND, BY_HAND, "", float("nan"), mask.sparsity, POOLED, mask.units)
    results = measure(audit, [dense_variant(), chosen])["results"]
    return results[results["split"] == "test"].reset_index(drop=True)

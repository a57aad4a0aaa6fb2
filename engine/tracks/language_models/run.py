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
from engine.core.types import POOLED, Hooks, Values
from engine.core.words import BY_HAND, axis_name, model_name
from engine.models.gguf_file import record_of
from engine.report.phrasing import SAME
from engine.store.runs import Run, Store, where
from engine.surgery.heads.mask import means_table
from engine.surgery.heads.replay import shape_of
from engine.surgery.named import mask_of
from engine.tracks.language_models import arms, words
from engine.tracks.language_models.arms import arm_variants, unreached
from engine.tracks.language_models.benchmark_tables import measured_benchmarks
from engine.tracks.language_models.bias import null_band
from engine.tracks.language_models.bias_intervals import UNUSABLE
from engine.tracks.language_models.controls import (
    UNDECIDED,
    control_shards,
    expect,
    expect_scoring,
    measure_controls,
    with_measuring,
)
from engine.tracks.language_models.effects import AxisData, head_groups
from engine.tracks.language_models.evidence import DRAWN, drawn_of, looks, power_of
from engine.tracks.language_models.evidence import said as said_drawn
from engine.tracks.language_models.opening import Audit, open_audit
from engine.tracks.language_models.predict import prediction, shown
from engine.tracks.language_models.request import SEARCH, AuditRequest, prompt_plan_of, validate
from engine.tracks.language_models.scores import ScoreMethod, auto, no_scores
from engine.tracks.language_models.selection import critical_heads, selection_method
from engine.tracks.language_models.tables import TEST, VALIDATION, Measured, wanted_shards
from engine.tracks.language_models.variants import (
    DENSE,
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


def _audited(audit: Audit) -> tuple[Values, Tables]:
    """Score, choose, measure."""
    request, audit.job = audit.request, with_measuring(audit)
    expect_scoring(audit, request.scores)
    for method in request.scores:
        if method.score == "z_bias" and method.pilots:
            audit.progress.settled = UNDECIDED
            audit.scoring["predicted"] = prediction(audit)
            # Draw first what tells whether axes will be ranked at all, and say what is left then.
            while wanted := method.looks(audit.job):
                audit.finish("predict", wanted)
            expect_scoring(audit, request.scores)
    scores = score_heads(audit, lambda unfinished: expect_scoring(audit, unfinished))
    if "predicted" not in audit.scoring and (said := shown(audit)):
        audit.progress.tell(said.strip())
    expect_scoring(audit, ())
    groups = head_groups(audit.job, scores, audit.scoring.get("z_bias", {}))
    variants, gammas = choose_variants(audit, scores, groups)
    variants += arm_variants(audit.plan, audit.context.lm)
    kept = [variant for variant in variants if variant.chosen]
    expect(audit, [*wanted_shards(request, variants), *control_shards(request, scores, kept)])
    tables = measure(audit, variants)
    tables |= measured_benchmarks(audit, variants, tables["results"])
    tables["scores"] = scores
    tables["head_groups"] = groups
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
        for score, part in where(pooled, axis=axis).groupby("score"):
            name = f"{score}_{axis}".strip("_")
            ends = [end for end in ("low", "high") if axis or part[end].notna().any()]
            columns = {"unit": "unit", "value": name, **{end: f"{name}_{end}" for end in ends}}
            part = part[list(columns)].rename(columns=columns)
            wide = wide.merge(part, on="unit", validate="one_to_one")
    critical = critical_heads(wide["z_ppl"].to_numpy(), float(request.gamma))
    n = {f"n_{axis}": int(where(pooled, axis=axis)["n"].max()) for axis in request.axes}
    more = {"critical": wide["unit"].isin(critical), **n, "seeds": request.seeds}
    return wide.drop(columns="unit").assign(**more)


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
    done = set()
    while wanted := [shard for shard in method.shards(audit.job) if shard not in done]:
        decided()
        audit.finish("score heads", wanted)
        done |= set(wanted)


def choose_variants(
    audit: Audit, scores: pd.DataFrame, groups: pd.DataFrame
) -> tuple[list[Variant], dict[str, float]]:
    """Every variant, with γ* chosen on validation where it is searched, and γ per axis."""
    request = audit.request
    shape = shape_of(audit.context.lm.model.config) if request.deployable else None
    if unsupported := unsupported_axes(audit):
        audit.scoring["unsupported"] = unsupported
    variants = all_variants(request, scores, audit.job.total, shape, groups, unsupported)
    if request.gamma != SEARCH:
        return variants, {axis: float(request.gamma) for axis in request.axes}
    audit.finish("search γ", search_shards(request, variants))
    found = search_gammas(audit.context, request, variants)
    audit.scoring["gamma"] = {axis: search.to_dict() for axis, search in found.items()}
    gammas = {axis: search.chosen for axis, search in found.items()}
    return with_gamma(variants, gammas), gammas


def unsupported_axes(audit: Audit) -> dict[str, str]:
    """Why an axis supports no ranking, by axis; none where no method asks for one that is."""
    request, job = audit.request, audit.job
    if not _needing_support(request):
        return {}
    found = {axis: said["note"] for axis, said in audit.scoring.get("z_bias", {}).items()}
    for axis in set(request.axes).difference(found):
        band = null_band(AxisData(job, axis).table, job.reading, auto.NULL_DRAWS)
        is_plain = auto.stands_out(band, looks=1)
        found[axis] = "" if is_plain else auto.not_ranked(band, len(job.seeds), looks=1)
    return {axis: found[axis] for axis in request.axes if found[axis]}


def _needing_support(request: AuditRequest) -> list[str]:
    return [name for name in request.selections if selection_method(name).needs_support]


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
    lm, model, prompts, corpus = context.lm, plan.model, plan.prompts, plan.corpus
    asked = prompts.table[prompts.table["split"].isin(SPLITS)]
    counts = asked.groupby(["axis", "split"]).size()
    size = record_of(model.folder).get("n_bytes")
    more = dict(notes=plan.of_model, in_chat=plan.in_chat, read=lm.adapter.how, file_bytes=size)
    drawn = {}
    if request.stop_at is not None:
        drawn = {DRAWN: drawn_of(tables["results"], audit.drawn or request, request).to_dict()}
    return {
        **audit.meta(f"{model_name(lm.name)}: {', '.join(request.axes)}"),
        **drawn,
        "model": {
            **{name: getattr(lm, name) for name in ("name", "revision", "weight_hash")},
            "model_type": model.model_type,
            "n_layers": lm.n_layers,
            "n_heads": lm.n_heads,
            "parameters": lm.n_parameters,
            **{name: told for name, told in more.items() if told},
        },
        "prompts": {
            "name": prompts.name,
            "digest": prompts.digest,
            "notes": list(prompts.notes),
            "own_split": prompts.own_split,
            "counts": {f"{axis}/{split}": int(n) for (axis, split), n in counts.items()},
        },
        "corpus": {
            "name": corpus.name,
            "digest": corpus.digest,
            "tokens": {split: len(tokens) for split, tokens in context.tokens.items()},
        },
        "judge": {
            "name": context.judge.info.name,
            "hash": context.judge.info.digest,
            "note": context.judge.info.note,
        },
        "gamma": gammas,
        "scoring": json_able(audit.scoring),
        "warnings": [
            # how the model was read, as the loaded model showed it
            *(lm.adapter.how if one == plan.model.how else one for one in plan.warnings),
            *unreached(plan, lm),
            *warnings_of(request, tables, plan.model.vocab_size),
            *unusable(tables),
            *not_ranked(audit.scoring),
            *(
                words.not_supported(name, axis, why)
                for name in _needing_support(request)
                for axis, why in audit.scoring.get("unsupported", {}).items()
            ),
            *([] if _scores_bias(request) else [words.not_scored()]),
            *([said_drawn(drawn, axis_name(drawn[DRAWN]["axis"]))] if drawn else []),
        ],
    }


def not_ranked(scoring: Values) -> list[str]:
    """One sentence per axis whose heads were not ranked."""
    return [
        f"Heads for {axis_name(axis)} were {said['note']}."
        for axis, said in scoring.get("z_bias", {}).items()
        if said.get("note")
    ]


def unusable(tables: dict[str, pd.DataFrame]) -> list[str]:
    """One sentence per variant that is no model any more."""
    groups, variants = tables["groups"], tables["variants"].set_index("variant", drop=False)
    lost = groups.loc[groups["verdict"] == UNUSABLE, "variant"].unique() if len(groups) else ()
    return [
        words.unusable(arms.does(row) if arms.is_arm(row) else row["variant"])
        for row in variants.loc[list(lost)].to_dict("records")
    ]


def warnings_of(
    request: AuditRequest, tables: dict[str, pd.DataFrame], vocab_size: int
) -> list[str]:
    """What a reader must know before reading any chart of this run."""
    results = where(tables["results"], variant=DENSE, split=TEST)
    dense = where(results, metric=f"bias:{request.reading}")
    inside = dense["value"] <= dense["null_high"] + SAME
    warnings = [
        words.null_warning(row.axis, row.value, row.null_high, int(row.n), _scores_bias(request))
        for row in dense[inside].itertuples()
    ]
    warnings += map(words.no_interval_warning, dense.loc[dense["low"].isna(), "axis"])
    unlike = dense[~inside & ~(dense["value"] > dense["group_null_high"] + SAME)]
    warnings += [
        words.group_warning(row.axis, row.value, row.group_null_high, row.group_note)
        for row in unlike.itertuples()
    ]
    for axis, rows in where(tables["groups"], variant=DENSE, metric="toxicity").groupby("axis"):
        few = rows[rows["verdict"] != ""].groupby("verdict")["group"]
        warnings += [
            words.small_group_warning(axis, names.tolist(), len(rows), reason)
            for reason, names in few
        ]
    if request.is_first_order:
        warnings.append(words.FIRST_ORDER)
    level = where(results, metric="perplexity")["value"]
    return warnings + [
        words.perplexity_warning(value, vocab_size) for value in level[level > vocab_size]
    ]


def _scores_bias(request: AuditRequest) -> bool:
    return any(method.score == "z_bias" for method in request.scores)


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
    return where(results, split=TEST).reset_index(drop=True)

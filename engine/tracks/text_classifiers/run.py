"""The whole audit of a text classifier's heads on one page: load, walk the procedures, measure, and
what must be known about the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from engine.audit.session import Executor, Local, Session, Tables, counts_of
from engine.classifiers.audit import ClassifierAudit, kept_in
from engine.classifiers.groups import group_warnings, predicted
from engine.core.errors import RequestError
from engine.core.types import POOLED, Hooks
from engine.models.load_text_classifier import NEW_HEAD, load_text_classifier, unknown_words
from engine.report import phrasing
from engine.store.runs import Store, where
from engine.tracks.text_classifiers.arms import (
    Finished,
    arms_of,
    cost_shards,
    dense_trials,
    forecast,
    importance_shards,
    lens_shards,
    null_shards,
    truth_shards,
    walked,
)
from engine.tracks.text_classifiers.captum_layers import prove_conductance
from engine.tracks.text_classifiers.context import TEST, TRAIN, TextContext
from engine.tracks.text_classifiers.importance import importance_table
from engine.tracks.text_classifiers.measurements import text_measurements
from engine.tracks.text_classifiers.measurements.importance import scored_texts
from engine.tracks.text_classifiers.procedures import procedures
from engine.tracks.text_classifiers.request import TextPlan, TextRequest, disk_faults, validate_text
from engine.tracks.text_classifiers.tables import MIN_SEEDS, text_tables

TextAudit = Session[TextPlan, TextContext]


def _ready(plan: TextPlan, store: Store) -> None:
    if faults := disk_faults(plan.request, plan.model, store.root):
        raise RequestError(faults)


def _prove(context: TextContext) -> None:
    """Show on this very model that masking changes something, and that conductance is Captum's, on
    the first training text."""
    context.prove()
    row = context.table(TRAIN).head(1)
    texts, second = context.pairs(row)
    found = prove_conductance(
        context.any_model, texts[0], second[0] if second else None, context.hooks.check
    )
    context.proof = {**found, "text": str(row["text_id"].iat[0])}


def context_of(
    plan: TextPlan,
    store: Store | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008
) -> TextContext:
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
    return TextContext(
        start=None if name is None else lambda seed: load(name, new_head=True, seed=seed),
        brought=None if plan.retune else load(request.model),
        identity=plan.identity,
        texts=plan.texts,
        settings=plan.settings(),
        kinds=text_measurements(),
        hooks=hooks,
        plan=plan,
        **kept_in(store),
    )


def compute(audit: TextAudit) -> Finished:
    """Every measurement of the run; procedures round by round, each as far as it knows its own next
    cut."""
    context, arms, trials = audit.context, arms_of(audit.request), range(audit.request.trials)
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
    for phase, shards in (
        (
            "importance before and after fine-tuning",
            importance_shards(context, arms, len(trials)),
        ),
        ("random masks", null_shards(context, arms).values()),
        ("every head silenced alone", truth_shards(context, len(trials))),
        ("attention lens", lens_shards(context, finished).values()),
        ("measure cost", cost_shards(finished).values()),
    ):
        audit.finish(phase, list(shards))
    return finished


def run_meta(
    audit: TextAudit, finished: Finished, tables: Tables, notes: Sequence[str]
) -> dict[str, Any]:
    """run.json: what was asked, of which model, on which texts, with which code, and what must be
    known about it."""
    plan, context = audit.plan, audit.context
    longer = truncated(context)
    found = audit.meta(f"{plan.model.name} on {plan.texts.name}")
    found["provenance"] = {**found["provenance"], "conductance": dict(context.proof)}
    return found | {
        "model": _model(plan, context),
        "data": _data(plan, tables, longer),
        "warnings": text_warnings(plan, context, tables, notes, longer),
    }


def _model(plan: TextPlan, context: TextContext) -> dict[str, Any]:
    told = ("name", "model_type", "revision", "weight_hash", "n_layers", "n_heads")
    return {
        **{name: getattr(plan.model, name) for name in told},
        "pretrained": plan.start_name,
        "pretrained_hash": None if plan.start is None else plan.start.weight_hash,
        "retuned": plan.retune,
        "parameters": context.any_model.n_parameters,
        "classes": list(plan.texts.classes),
        "max_length": plan.max_length,
    }


def _data(plan: TextPlan, tables: Tables, longer: Mapping[str, int]) -> dict[str, Any]:
    texts = plan.texts
    return {
        **{name: getattr(texts, name) for name in ("name", "digest", "stand_in", "metric")},
        **{name: list(getattr(texts, name)) for name in ("notes", "classes", "groups")},
        "pair": bool(texts.pair),
        "counts": counts_of(tables),
        "texts": {str(split): int(n) for split, n in texts.table["split"].value_counts().items()},
        "truncated": dict(longer),
    }


def truncated(context: TextContext) -> dict[str, int]:
    """Texts per split that are longer than the model reads, and were cut short."""
    model, found = context.any_model, {}
    for split in (TRAIN, TEST):
        texts, second = context.pairs(context.table(split))
        found[split] = int((model.lengths(texts, second) > model.max_length).sum())
    return found


def at_chance(answers: np.ndarray, labels: np.ndarray) -> str:
    """What to say of a full model that cannot be told from always naming the most frequent class;
    "" where it can.

    answers [texts, classes], labels [texts] int. One-sided binomial test at .05 of the share of
    right answers.
    """
    right, n = int((predicted(answers) == labels).sum()), len(labels)
    guess = float(np.bincount(labels).max() / n)
    if binomtest(right, n, guess, alternative="greater").pvalue <= 0.05:
        return ""
    return (
        f"The first full model is right on {right} of {n} test texts; always naming the most "
        f"frequent class, on {guess * n:.0f}. It may only guess, and a subnetwork that matches it "
        "may have learned nothing either. Cancel and give other data, more epochs or another "
        "rate, unless you want to see that."
    )


def text_warnings(
    plan: TextPlan,
    context: TextContext,
    tables: Tables,
    notes: Sequence[str],
    longer: Mapping[str, int],
) -> list[str]:
    """What a reader must know before any chart, most general first. longer: what `truncated`
    counted."""
    texts = plan.texts
    found = [texts.stand_in] if texts.stand_in else []
    found += [
        *texts.notes,
        *_notes_of_model(plan, context),
        *_full(plan),
        *_lengths(plan, longer),
        *unknown_words(context.any_model, *context.pairs(context.table(TEST))),
        *_scored(plan, context),
        *notes,
    ]
    found += _learned_nothing(plan, tables)
    found += [
        *group_warnings(tables["groups"]),
        *_trials(tables["variants"]),
        *_same(plan, tables["ticket_levels"]),
    ]
    if plan.request.trials < MIN_SEEDS:
        found.append(
            f"Seeds: only {plan.request.trials}. Nothing is called a ticket below {MIN_SEEDS}."
        )
    return list(dict.fromkeys(found))


def _notes_of_model(plan: TextPlan, context: TextContext) -> list[str]:
    """Notes of the model whose answers count; that its head is new is no news where it was
    fine-tuned here."""
    if context.brought is not None:
        return list(context.brought.notes)
    return [note for note in context.pretrained(0).notes if NEW_HEAD not in note]


def _learned_nothing(plan: TextPlan, tables: Tables) -> list[str]:
    """Where the full model cannot be told from one that always names the most frequent class."""
    row = where(tables["results"], variant="dense", axis="", metric=plan.texts.metric)
    guess = 0.0
    if plan.texts.metric == "accuracy":
        guess = float(tables["texts"]["label"].value_counts(normalize=True).iloc[0])
    value, low = float(row["value"].iloc[0]), float(row["low"].iloc[0])
    if low > guess:
        return []
    return [
        f"The full model's {plan.texts.metric} of {value:.3f} (95 % from {low:.3f}) may be no "
        f"better than always naming the most frequent class ({guess:.3f}). A subnetwork that "
        "matches it may have learned nothing either."
    ]


def _scored(plan: TextPlan, context: TextContext) -> list[str]:
    """Where fewer texts were scored than were asked for."""
    wanted, n = plan.request.score_texts, len(scored_texts(context, 0))
    if n >= wanted - len(plan.texts.classes):
        return []
    return [
        f"{n} training texts were scored, not {wanted}: equally many of every class, and the rarest"
        " has no more."
    ]


def _same(plan: TextPlan, levels: pd.DataFrame) -> list[str]:
    """Seeds that came to the same model say nothing about luck."""
    few = levels[(levels["axis"] == "") & (levels["n_seeds"] < plan.request.trials)]
    if few.empty:
        return []
    names = ", ".join(dict.fromkeys(few["method"]))
    said = (
        f"several seeds came to the same model, and that counts once; below {MIN_SEEDS} nothing "
        "is a ticket"
    )
    return [f"{names}: {said}."]


def _full(plan: TextPlan) -> list[str]:
    """Where the full model comes from, and what that means for the comparison."""
    if plan.retune:
        recipe = plan.request.recipe
        epochs = phrasing.count(recipe.epochs, "epoch")
        what = f"{epochs} at {recipe.rate:g}, batches of {recipe.batch}"
        return [f"The full model of every seed was fine-tuned by this audit ({what})."]
    found = ["The full model is one fixed model, so seeds vary the subnetworks only."]
    if any(procedures()[name].retrains for name, _ in plan.request.arms):
        found.append(
            "Subnetworks were fine-tuned by this audit, the full model by somebody else, perhaps"
            " otherwise."
        )
    return found


def _lengths(plan: TextPlan, longer: Mapping[str, int]) -> list[str]:
    return [
        f"{n} {split} texts are longer than {plan.max_length} tokens; only that much of them is"
        " read."
        for split, n in longer.items()
        if n
    ]


def _trials(variants: pd.DataFrame) -> list[str]:
    """Degenerate models."""
    trials = variants[variants["seed"] >= 0]
    n = int(trials["degenerate"].sum())
    return [f"{n} of {len(trials)} models predict one class only; they are marked."] if n else []


AUDIT = ClassifierAudit(
    validate_text, context_of, compute, text_tables, run_meta, ready=_ready, prove=_prove
)
run_text_audit = AUDIT.run


def importance_only(
    request: TextRequest,
    store: Store,
    hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
    executor: Executor | None = None,
) -> pd.DataFrame:
    """One row per stage, score, group of texts and head, pooled over seeds (columns of the table
    `importance`).

    Shares its measurements with `run_text_audit`, so an audit that follows finds them finished.
    """
    plan = validate_text(
        replace(request, methods=tuple(dict.fromkeys(f"once:{score}" for _, score in request.arms)))
    )
    store.prove_writable()
    with closing(executor or Local()) as chosen:
        audit, arms = AUDIT.opened(plan, store, hooks, chosen), arms_of(plan.request)
        shards = importance_shards(audit.context, arms, plan.request.trials)
        audit.finish("score heads", shards)
        table = importance_table(audit.context, arms, plan.request.trials)
    return table[table["seed"] == POOLED].drop(columns="seed").reset_index(drop=True)

"""The whole audit of a text classifier's heads on one page: load, walk the procedures, measure, and
what must be known about the run. Then what a finished one is asked besides: heads that a person
chose."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from engine.audit.session import Executor, Grown, Local, Session, Tables, counts_of, timed
from engine.classifiers.audit import ClassifierAudit, kept_in
from engine.classifiers.groups import group_warnings, predicted
from engine.core.errors import RequestError
from engine.core.types import POOLED, Hooks, rng
from engine.models.load_text_classifier import NEW_HEAD, load_text_classifier, unknown_words
from engine.report import phrasing
from engine.report.hand_sets import MOST_TRIED, HandSet, rows_of
from engine.resident.warm import Warm
from engine.store.runs import Run, Store, pack, unpack, where
from engine.tracks.text_classifiers.captum_layers import prove_conductance
from engine.tracks.text_classifiers.context import TEST, TRAIN, TextContext, TextShard
from engine.tracks.text_classifiers.measurements import text_measurements
from engine.tracks.text_classifiers.measurements.importance import answers_under, scored_texts
from engine.tracks.text_classifiers.procedures import (
    Finished,
    TextArm,
    cost_shards,
    dense_trials,
    forecast,
    importance_shards,
    lens_shards,
    null_shards,
    procedures,
    truth_shards,
    walked,
)
from engine.tracks.text_classifiers.request import TextPlan, TextRequest, disk_faults, validate_text
from engine.tracks.text_classifiers.tables import (
    MIN_SEEDS,
    importance_table,
    measure_of,
    text_tables,
)

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


def arms_of(request: TextRequest) -> list[TextArm]:
    """The arms in the order they were asked for."""
    same = request.sparsities, request.step, request.trials
    return [TextArm(procedures()[name], score, *same) for name, score in request.arms]


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
    phases = {
        "importance before and after fine-tuning": importance_shards(context, arms, len(trials)),
        "random masks": null_shards(context, arms).values(),
        "every head silenced alone": truth_shards(context, len(trials)),
        "attention lens": lens_shards(context, finished).values(),
        "measure cost": cost_shards(finished).values(),
    }
    for phase, shards in phases.items():
        audit.finish(phase, list(shards))
    return finished


def run_meta(
    audit: TextAudit, finished: Finished, tables: Tables, notes: Sequence[str]
) -> dict[str, Any]:
    """run.json: what was asked, of which model, on which texts, with which code, and what must be
    known about it."""
    plan, context, texts = audit.plan, audit.context, audit.plan.texts
    longer = truncated(context)
    found = audit.meta(f"{plan.model.name} on {texts.name}")
    found["provenance"] = {**found["provenance"], "conductance": dict(context.proof)}
    told = ("name", "model_type", "revision", "weight_hash", "n_layers", "n_heads")
    model = {
        **{name: getattr(plan.model, name) for name in told},
        "pretrained": plan.start_name,
        "pretrained_hash": None if plan.start is None else plan.start.weight_hash,
        "retuned": plan.retune,
        "parameters": context.any_model.n_parameters,
        "classes": list(texts.classes),
        "max_length": plan.max_length,
    }
    data = {
        **{name: getattr(texts, name) for name in ("name", "digest", "stand_in", "metric")},
        **{name: list(getattr(texts, name)) for name in ("notes", "classes", "groups")},
        "pair": bool(texts.pair),
        "counts": counts_of(tables),
        "texts": {str(split): int(n) for split, n in texts.table["split"].value_counts().items()},
        "truncated": longer,
    }
    warnings = text_warnings(plan, context, tables, notes, longer)
    return found | {"model": model, "data": data, "warnings": list(dict.fromkeys(warnings))}


def truncated(context: TextContext) -> dict[str, int]:
    """Texts per split that are longer than the model reads, and were cut short."""
    model, found = context.any_model, {}
    for split in (TRAIN, TEST):
        lengths = model.lengths(*context.pairs(context.table(split)))
        found[split] = int((lengths > model.max_length).sum())
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
) -> Iterator[str]:
    """What a reader must know before any chart, most general first. longer: what `truncated`
    counted."""
    texts, request = plan.texts, plan.request
    if texts.stand_in:
        yield texts.stand_in
    yield from texts.notes
    if context.brought is not None:
        yield from context.brought.notes
    else:  # that its head is new is no news where it was fine-tuned here
        yield from (note for note in context.pretrained(0).notes if NEW_HEAD not in note)
    yield from _full(plan)
    for split, n in longer.items():
        if n:
            yield (
                f"{n} {split} texts are longer than {plan.max_length} tokens; only that much of"
                " them is read."
            )
    yield from unknown_words(context.any_model, *context.pairs(context.table(TEST)))
    n = len(scored_texts(context, 0))
    if n < request.score_texts - len(texts.classes):
        yield (
            f"{n} training texts were scored, not {request.score_texts}: equally many of every"
            " class, and the rarest has no more."
        )
    yield from notes
    yield from _learned_nothing(plan, tables)
    yield from group_warnings(tables["groups"])
    trials = tables["variants"].query("seed >= 0")
    if flat := int(trials["degenerate"].sum()):
        yield f"{flat} of {len(trials)} models predict one class only; they are marked."
    levels = tables["ticket_levels"]
    few = levels[(levels["axis"] == "") & (levels["n_seeds"] < request.trials)]
    if len(few):  # seeds that came to the same model say nothing about luck
        yield (
            f"{', '.join(dict.fromkeys(few['method']))}: several seeds came to the same model, and"
            f" that counts once; below {MIN_SEEDS} nothing is a ticket."
        )
    if request.trials < MIN_SEEDS:
        yield f"Seeds: only {request.trials}. Nothing is called a ticket below {MIN_SEEDS}."


def _full(plan: TextPlan) -> Iterator[str]:
    """Where the full model comes from, and what that means for the comparison."""
    if plan.retune:
        recipe = plan.request.recipe
        epochs = phrasing.count(recipe.epochs, "epoch")
        what = f"{epochs} at {recipe.rate:g}, batches of {recipe.batch}"
        yield f"The full model of every seed was fine-tuned by this audit ({what})."
        return
    yield "The full model is one fixed model, so seeds vary the subnetworks only."
    if any(procedures()[name].retrains for name, _ in plan.request.arms):
        yield (
            "Subnetworks were fine-tuned by this audit, the full model by somebody else, perhaps"
            " otherwise."
        )


def _learned_nothing(plan: TextPlan, tables: Tables) -> Iterator[str]:
    """Where the full model cannot be told from one that always names the most frequent class."""
    metric, guess = plan.texts.metric, 0.0
    row = where(tables["results"], variant="dense", axis="", metric=metric).iloc[0]
    if metric == "accuracy":
        guess = float(tables["texts"]["label"].value_counts(normalize=True).iloc[0])
    if row["low"] <= guess:
        yield (
            f"The full model's {metric} of {row['value']:.3f} (95 % from {row['low']:.3f}) may be"
            f" no better than always naming the most frequent class ({guess:.3f}). A subnetwork"
            " that matches it may have learned nothing either."
        )


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


# What the full models of a finished audit answer with heads off that a person chose, and what these
# answers are worth.


APART = 1e-3
"""Largest difference of a probability that the same model may show on other hardware."""


def measured_heads(
    grown: Grown, store: Store, hooks: Hooks, executor: Executor, warm: Warm | None
) -> tuple[TextAudit, HandSet]:
    """The set on its split's texts, in every seed's full model, with that model's own answers."""
    kept = f"full models of {grown.run.id} {store.root}"

    def bytes_of(context: TextContext) -> int:
        """About what it takes: the model it starts from, and as many with weights of their own as
        are held at a time."""
        return 3 * context.any_model.n_parameters * context.any_model.dtype.itemsize

    audit = AUDIT.reopened(grown.plan, store, hooks, executor, warm, kept, bytes_of)
    context, chosen = audit.context, grown.variants[0]
    units, is_test = chosen.units, grown.split == TEST
    trials = dense_trials(context, audit.request.trials)
    notes = _restored(context, grown.run, trials)
    audit.finish("fine-tune the full model", trials)
    texts, dense, answers = (_on_test if is_test else _tried)(audit, trials, units, grown.split)
    with timed(audit.progress, "statistics", "groups and intervals"):
        given = dense if context.settings.retune else dense[min(dense)]
        measure = measure_of(context.texts, texts, grown.axes, given, grown.split)
        rows = rows_of(measure.dense(), measure.variant(answers), chosen.name, answers)
    costs = pd.DataFrame()
    if is_test:
        cost = TextShard("text_cost", off=units)  # cut for real, timed in turn with the full model
        audit.finish("measure cost", [cost])
        costs = context.fetch([cost])[0].assign(variant=chosen.name)
        notes += _apart(grown.run, dense, texts)
    columns = {
        "retrained": False,
        "cut": json.dumps(list(units)),
        "parameters": context.parameters_after(units),
        "ticket": "",
    }
    return audit, HandSet(texts, dense, answers, rows, columns, costs, notes=tuple(notes))


def _on_test(
    audit: TextAudit, trials: list[TextShard], units: tuple[int, ...], split: str
) -> tuple[Any, Any, Any]:
    """Test texts, and the answers to them by seed, before and with the heads off: kept as those of
    any arm are."""
    context = audit.context
    silenced = [TextShard("silenced", off=units, trial=shard.trial) for shard in trials]
    audit.finish("measure", silenced)
    dense, answers = (
        dict(zip((shard.trial for shard in found), context.exact(found), strict=True))
        for found in (trials, silenced)
    )
    return context.table(split), dense, answers


def _tried(
    audit: TextAudit, trials: list[TextShard], units: tuple[int, ...], split: str
) -> tuple[Any, Any, Any]:
    """The same of texts of another split, at most MOST_TRIED, drawn once and for all; not kept as
    measurements: it takes seconds."""
    context, dense, answers = audit.context, {}, {}
    texts = context.table(split)
    if len(texts) > MOST_TRIED:
        draw = rng("tried texts", context.settings.first_seed, split)
        places = np.sort(draw.permutation(len(texts))[:MOST_TRIED])
        texts = texts.iloc[places].reset_index(drop=True)
    first, second = context.pairs(texts)
    with timed(audit.progress, "measure", f"{len(texts)} {split} texts"):
        for shard in trials:
            model, masks = context.model_of(shard), ((), units)
            both = answers_under(model, first, second, masks, context.hooks.check)
            dense[shard.trial], answers[shard.trial] = both.astype(np.float64)
    return texts, dense, answers


def _restored(context: TextContext, run: Run, trials: list[TextShard]) -> list[str]:
    """Full models whose weights the run kept are taken from there rather than fine-tuned again;
    notes of the others.

    What is kept in the store is then what the audit measured: the same model under the same key,
    its measurement "tuned" put together from the run's tables.
    """
    missing = [shard for shard in trials if not context.kept(shard)]
    if not context.settings.retune or not missing:
        return []
    there, here = run.meta["provenance"]["device"], context.any_model.device
    weights = pd.DataFrame({"variant": []})
    if run.has("weights") and str(there).split(":")[0] == str(here).split(":")[0]:
        weights = run.table("weights")
    for shard in missing:
        name = f"dense#{shard.trial}"
        mine = where(weights, variant=name)
        if mine.empty:
            continue
        arrays = {f"weights/{one}": value for one, value in unpack(mine)[0].items()}
        curve = where(run.table("curves"), variant=name).rename(columns={"step": "epoch"})
        if len(curve):
            arrays |= {f"curve/{one}": curve[one].to_numpy() for one in ("epoch", "loss", "rate")}
        answers = _stored(run, name, context.table(TEST)).astype(np.float32)
        plain = {"parameters": context.any_model.n_parameters, "max_logit_difference": 0.0}
        context.keeper.put(context.key(shard), pack({"probabilities": answers, **arrays}, plain))
    again = sum(not context.kept(shard) for shard in missing)
    said = "The full model of {} was fine-tuned again: the audit kept no weights of it."
    return [said.format(f"{again} of {len(trials)} seeds")] if again else []


def _stored(run: Run, variant: str, texts: pd.DataFrame) -> np.ndarray:
    """What the audit's model answered to the texts, [texts, classes]."""
    rows = where(run.table("predictions"), variant=variant).set_index("text_id")
    return rows.loc[texts["text_id"]].filter(regex="^p_").to_numpy()


def _apart(run: Run, dense: Mapping[int, np.ndarray], texts: pd.DataFrame) -> list[str]:
    """What must be said of full models that answer otherwise than in the audit: changes are against
    them."""
    several, notes = len(dense) > 1, []
    for seed, answers in dense.items():
        was = _stored(run, f"dense#{seed}" if several else "dense", texts)
        others = int((was.argmax(axis=1) != answers.argmax(axis=1)).sum())
        apart = float(np.abs(was - answers).max())
        if apart > APART:
            notes.append(
                f"Seed {seed}: the full model fine-tuned here differs from the audit's, because "
                "machines and versions round differently. Probabilities differ by up to "
                f"{apart:.2g}, the named class for {others} of {len(texts)} test texts. Changes "
                "are measured from the model fine-tuned here."
            )
    return notes

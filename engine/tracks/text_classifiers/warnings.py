"""What a reader must know before reading any chart of a text classifier's run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from engine.classifiers.groups import group_warnings
from engine.classifiers.metrics import predicted
from engine.models.load_text_classifier import NEW_HEAD
from engine.models.text_answers import unknown_words
from engine.tracks.text_classifiers.context import TEST, TRAIN, TextContext
from engine.tracks.text_classifiers.measurements._work import scored_texts
from engine.tracks.text_classifiers.procedures import procedures
from engine.tracks.text_classifiers.request import TextPlan
from engine.tracks.text_classifiers.winning_tickets import MIN_SEEDS


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
        f"The first full model is right on {right} of {n} test texts, and always naming the most"
        f" frequent class on {guess * n:.0f}: it cannot be told from guessing, and a subnetwork"
        " that matches it may have learned nothing either. Cancel, and give other data, more"
        " epochs or another rate, unless that is what you want to see."
    )


def text_warnings(
    plan: TextPlan,
    context: TextContext,
    tables: dict[str, pd.DataFrame],
    notes: Sequence[str],
    longer: Mapping[str, int],
) -> list[str]:
    """Sentences, most general first. longer: what `truncated` counted."""
    texts = plan.texts
    found = [texts.stand_in] if texts.stand_in else []
    found += [
        *texts.notes,
        *_model(plan, context),
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
            f"Only {plan.request.trials} seed(s): nothing is called a ticket below {MIN_SEEDS}."
        )
    return list(dict.fromkeys(found))


def _model(plan: TextPlan, context: TextContext) -> list[str]:
    """Notes of the model whose answers count; that its head is new is no news where it was
    fine-tuned here."""
    if context.brought is not None:
        return list(context.brought.notes)
    return [note for note in context.pretrained(0).notes if NEW_HEAD not in note]


def _learned_nothing(plan: TextPlan, tables: dict[str, pd.DataFrame]) -> list[str]:
    """Where the full model cannot be told from one that always names the most frequent class."""
    results = tables["results"]
    row = results[
        (results["variant"] == "dense")
        & (results["axis"] == "")
        & (results["metric"] == plan.texts.metric)
    ]
    guess = 0.0
    if plan.texts.metric == "accuracy":
        guess = float(tables["texts"]["label"].value_counts(normalize=True).iloc[0])
    value, low = float(row["value"].iloc[0]), float(row["low"].iloc[0])
    if low > guess:
        return []
    return [
        f"The full model's {plan.texts.metric} of {value:.3f} (95 % from {low:.3f}) cannot be told"
        f" from always naming the most frequent class ({guess:.3f}): what matches it may have"
        " learned nothing either."
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
        f"several seeds came to the same model, which counts once; below {MIN_SEEDS} nothing is a"
        " ticket"
    )
    return [f"{names}: {said}."]


def _full(plan: TextPlan) -> list[str]:
    """Where the full model comes from, and what that means for the comparison."""
    if plan.retune:
        recipe = plan.request.recipe
        what = f"{recipe.epochs} epochs at {recipe.rate:g}, batches of {recipe.batch}"
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

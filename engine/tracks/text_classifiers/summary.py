"""What the JSON form of a text classifier's audit holds, whether its numbers follow from what it
stored, and what a text classifier is worth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, matthews_corrcoef

from engine.classifiers.audit import Evaluation, evaluation
from engine.classifiers.layout import Outputs, columns_of, in_order_of
from engine.classifiers.tables import again_from_answers, again_from_tried, pooled_are_means
from engine.core.errors import RequestError, refusal, unknown
from engine.core.types import Values
from engine.data.texts.load import SPLITS, TextAsk, TextSet, load_texts
from engine.report.summary import Summary
from engine.store.runs import Run
from engine.surgery.record import MASK_FILE
from engine.tracks.text_classifiers.request import own_axes, told_apart, usual_axes
from engine.tracks.text_classifiers.tables import MIN_SEEDS, ROUNDING

SUMMARY = Summary(
    "track request model data warnings spent",
    "method base score sparsity realised retrained degenerate ticket",
)


# Do the numbers of a text run follow from its stored answers? Metrics, means and tickets are
# computed again.


TOLERANCE = 1e-6


def recomputed(run: Run) -> list[Values]:
    """One check per metric, the means, and the winning tickets by their definition."""
    texts = run.table("texts").set_index("text_id")
    stored = run.table("predictions")
    trials = (
        stored[stored["variant"] != "dense"] if (stored["variant"] == "dense#0").any() else stored
    )
    checks = again_from_answers(run.table("results"), trials, texts, "text_id")
    return [
        *checks,
        *again_from_tried(run, "text_id"),
        pooled_are_means(run),
        _tickets(run, stored, texts),
    ]


def _tickets(run: Run, stored: pd.DataFrame, texts: pd.DataFrame) -> Values:
    """full mean <= subnetwork mean + its standard deviation, from the answers of every seed."""
    levels = run.table("ticket_levels")
    levels, variants = levels[levels["axis"] == ""], run.table("variants")
    values = {
        str(name): _value(run, part, texts) for name, part in stored.groupby("variant", sort=False)
    }
    several = [value for name, value in values.items() if name.startswith("dense#")]
    full = float(np.mean(several or [values["dense"]]))
    wrong = 0
    for row in levels.itertuples():
        mine = variants[(variants["method"] == row.method) & (variants["sparsity"] == row.sparsity)]
        mine = mine[mine["seed"] >= 0]
        seeds = [values[name] for name in mine["variant"]]
        spread = np.std(seeds, ddof=1) if len(seeds) > 1 else np.nan
        again = _models(run, mine) >= MIN_SEEDS and full <= np.mean(seeds) + spread + ROUNDING
        wrong += int(
            bool(again) != bool(row.matching) or abs(np.mean(seeds) - row.mean) > TOLERANCE
        )
    what = f"{len(levels)} ticket verdicts follow from the stored answers ({wrong} do not)"
    return {"what": what, "ok": wrong == 0}


def _models(run: Run, seeds: pd.DataFrame) -> int:
    """How many different models the seeds came to: a fixed full model with the same heads masked is
    one."""
    tuned = seeds["retrained"] | run.model["retuned"]
    return len(set(zip(seeds["cut"], seeds["seed"].where(tuned, -1), strict=True)))


def _value(run: Run, part: pd.DataFrame, texts: pd.DataFrame) -> float:
    truth = texts.loc[part["text_id"], "label"].to_numpy()
    answers = part[[name for name in part if name.startswith("p_")]].to_numpy(dtype=float)
    guess = answers.argmax(axis=1)
    matthews = run.data["metric"] == "matthews"
    return float(matthews_corrcoef(truth, guess) if matthews else accuracy_score(truth, guess))


# One text classifier on one set of texts: the same measures as an audit's, without pruning
# anything.


if TYPE_CHECKING:
    from engine.models.load_text_classifier import TextClassifier


def evaluate_text(
    model: str,
    data: str,
    ask: TextAsk,
    axes: tuple[str, ...],
    split: str,
    max_length: int | None,
    device: str,
    classes: tuple[str, ...] = (),
) -> Evaluation:
    """A classifier, whole or cut, group by group. RequestError where the model, the texts or the
    split are wrong.

    max_length: tokens of a text that are read; None: as the model's tokenizer says. classes: of the
    texts, in the order of the model's outputs; () as its files name them.
    """
    if split not in SPLITS:
        raise RequestError(unknown("split", split, SPLITS))
    axes = own_axes(data, axes) or usual_axes(data, ask.target)
    texts = load_texts(data, replace(ask, groups=columns_of(axes)))
    classifier, texts = _loaded(model, texts, max_length, device, classes)
    return _measured(model, classifier, texts, split, axes)


def _loaded(
    model: str, texts: TextSet, max_length: int | None, device: str, classes: tuple[str, ...]
) -> tuple[TextClassifier, TextSet]:
    """The classifier, and the texts with labels in the order of its outputs."""
    from engine.models.load_text_classifier import (
        inspect_text_model,
        load_text_classifier,
        usual_length,
    )
    from engine.surgery.heads.replay import load_cut_classifier

    if (Path(model).expanduser() / MASK_FILE).is_file():
        classifier = load_cut_classifier(model, device)
        outputs = Outputs(model, classifier.classes, len(classifier.classes))
        texts = in_order_of(texts, outputs, classes)
        return replace(classifier, max_length=max_length or classifier.max_length), texts
    info = inspect_text_model(model)
    if not info.has_head:
        what = "has no classification head, so it answers nothing yet."
        raise refusal(info.name, what, "Give a fine-tuned classifier.")
    texts = told_apart(texts, info, classes, device)
    length = max_length or usual_length(info)
    return load_text_classifier(model, texts.classes, device=device, max_length=length), texts


def _measured(
    model: str, classifier: TextClassifier, texts: TextSet, split: str, axes: tuple[str, ...]
) -> Evaluation:
    from engine.models.load_text_classifier import probabilities_of

    table = texts.table.iloc[texts.rows(split)].reset_index(drop=True)
    if table.empty:
        raise refusal("split", f"{texts.name} has no {split} texts.", "Choose another split.")
    second = table["text_b"].tolist() if texts.pair else None
    answers = probabilities_of(classifier, table["text"].tolist(), second).astype(np.float64)
    from engine.tracks.text_classifiers.tables import measure_of

    measure = measure_of(texts, table, axes, answers, split)
    notes = _notes(classifier, texts, table, second)
    return evaluation(model, texts.name, measure, notes)


def _notes(
    classifier: TextClassifier, texts: TextSet, table: pd.DataFrame, second: list[str] | None
) -> tuple[str, ...]:
    """What must be known: notes of texts and model, and how many texts were cut short."""
    from engine.models.load_text_classifier import unknown_words

    found = [
        *texts.notes,
        *classifier.notes,
        *unknown_words(classifier, table["text"].tolist(), second),
    ]
    longer = int((classifier.lengths(table["text"].tolist(), second) > classifier.max_length).sum())
    if longer:
        found.append(
            f"{longer} texts are longer than {classifier.max_length} tokens; only that much of them"
            " is read."
        )
    return tuple(found)


def inspected(given: Values) -> list[str]:
    """Sentences; given: model and device as a request has them. RequestError with every fault of
    the model."""
    from engine.models.checkpoint import heads_said
    from engine.models.load_text_classifier import (
        inspect_text_model,
        load_text_classifier,
    )  # loads torch

    name, device = str(given.get("model") or ""), str(given.get("device") or "auto")
    info = inspect_text_model(name)
    classes = info.classes or tuple(str(at) for at in range(info.n_labels or 2))
    said = heads_said(info, lambda: load_text_classifier(name, classes, device=device).adapter)
    if not info.has_head:
        known = (
            "It is an encoder without a classifier: one is fitted on the audit's training texts."
        )
    elif info.classes:
        known = f"It tells apart: {', '.join(classes)}."
    else:
        known = (
            f"Its {info.n_labels} outputs have no names: which class each is must be said"
            " (--classes)."
        )
    return [said[0], known, *said[1:], *info.notes]

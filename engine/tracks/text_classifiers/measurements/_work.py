"""What the measurements share: answers of a model, its training texts, and which texts a score
reads."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.core.errors import PruneAuditError
from engine.core.ids import rng
from engine.models.load_text_classifier import TextClassifier, probabilities_of
from engine.tracks.text_classifiers.context import TEST, TRAIN, TextContext

MIDDLE = (0.05, 0.95)
"""Quantiles of text length between which texts are scored (thesis, Sec. 6.6.1: lengths filtered by
quantiles)."""
DEVIATIONS = 2.0
"""Standard deviations from the mean length, for the other filter that the thesis names without a
number."""


def answers_of(context: TextContext, classifier: TextClassifier, split: str = TEST) -> np.ndarray:
    """Probabilities of a split's texts in the order of `context.table`, [n, classes] float32."""
    texts, second = context.pairs(context.table(split))
    return probabilities_of(
        classifier, texts, second, context.settings.batch, context.hooks.check, context.inside
    )


def scored_texts(context: TextContext, trial: int) -> pd.DataFrame:
    """Training texts that a score reads in one trial: equally many of every class, drawn among
    those of usual length.

    PruneAuditError where a class has no text of usual length.
    """
    table = context.table(TRAIN)
    words = (table["text"] + " " + table["text_b"]).str.split().str.len()
    usual = table[words.between(*_usual_lengths(words, context.settings.length_filter))]
    counts = usual["label"].value_counts()
    if len(counts) < table["label"].nunique():
        raise PruneAuditError(
            f"{context.texts.name}: a class has no training text of usual length"
            f" ({context.settings.length_filter} of lengths in words), so no balanced sample can be"
            " scored."
        )
    per_class = max(1, min(context.settings.score_texts // len(counts), int(counts.min())))
    parts = []
    for label, rows in usual.groupby("label"):
        order = rng("scored texts", context.settings.first_seed + trial, label).permutation(
            len(rows)
        )
        parts.append(rows.iloc[np.sort(order[:per_class])])
    return pd.concat(parts).sort_values("text_id").reset_index(drop=True)


def _usual_lengths(words: pd.Series, by: str) -> tuple[float, float]:
    """The shortest and the longest text that is scored, in words."""
    if by == "deviation":
        half = DEVIATIONS * float(words.std())
        return float(words.mean()) - half, float(words.mean()) + half
    low, high = words.quantile(list(MIDDLE))
    return float(low), float(high)

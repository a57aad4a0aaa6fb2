"""How important every head is to one model on each of some training texts, by one score."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd

from engine.classifiers.audit import EachAlone
from engine.core.errors import PruneAuditError
from engine.core.ids import rng
from engine.models.load_text_classifier import TextClassifier, probabilities_of
from engine.store.tables import pack
from engine.surgery.heads.mask import masked
from engine.tracks.text_classifiers.context import TEST, TRAIN, TextContext, TextShard
from engine.tracks.text_classifiers.scores.base import head_importance, settings_of


class Importance(EachAlone):
    """Array table: per_text [texts, units] float32 (NaN where a head is gone or has no number),
    delta [texts], n_constant [units]; plainly: text_ids. A score that reads no texts has one row.
    """

    name = "importance"
    version = 2
    pace = 0.85

    def parts(self, context: TextContext, shard: TextShard) -> dict[str, Any]:
        method = head_importance(shard.score)
        settings = {
            name: value
            for name, value in asked(context, shard.score).items()
            if name not in method.not_in_key
        }
        return {
            "score": [method.version, settings],
            "texts": (
                [context.settings.score_texts, context.settings.length_filter]
                if method.reads_texts
                else 0
            ),
        }

    def needs(self, context: TextContext, shard: TextShard) -> list[TextShard]:
        return context.model_shards(shard)

    def table(self, context: TextContext, shard: TextShard) -> pd.DataFrame:
        method = head_importance(shard.score)
        table = (
            scored_texts(context, shard.trial)
            if method.reads_texts
            else context.table(TRAIN).head(1)
        )
        classifier, (texts, second) = context.model_of(shard), context.pairs(table)
        with masked(classifier, context.mask(shard.off)) if shard.off else nullcontext():
            found = method.importance(
                classifier,
                texts,
                second,
                table["label"].to_numpy(),
                asked(context, shard.score),
                context.seed(f"importance {shard.score}", shard.trial),
                context.hooks.check,
                context.inside,
            )
        per_text, n_constant = found.per_text.copy(), found.n_constant.copy()
        per_text[:, list(shard.off)], n_constant[list(shard.off)] = (
            np.nan,
            0,
        )  # what silenced heads get means nothing
        arrays = {"per_text": per_text, "delta": found.delta, "n_constant": n_constant}
        return pack(arrays, {"text_ids": table["text_id"].tolist() if method.reads_texts else []})

    def size(self, context: TextContext, shard: TextShard) -> float:
        if not head_importance(shard.score).reads_texts:
            return 1.0
        return (
            3.0 * context.settings.score_texts * (asked(context, shard.score).get("steps", 0) + 1)
        )


def asked(context: TextContext, score: str) -> dict[str, Any]:
    """All settings of a score, declared defaults included."""
    return settings_of(head_importance(score), context.settings.scores.get(score, {}))


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

"""What the kinds share: answers of a model, its training texts, and which texts a score reads."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from engine.metrics.text_bench import TEST, TRAIN, TextBench
from engine.models.load_text_classifier import TextClassifier
from engine.seeds import rng

MIDDLE = (0.05, 0.95)
"""Quantiles of text length between which texts are scored (thesis, Sec. 6.6.1: lengths filtered by quantiles)."""


def answers_of(bench: TextBench, classifier: TextClassifier, split: str = TEST) -> np.ndarray:
    """Probabilities of a split's texts in the order of `bench.table`, [n, classes] float32.

    Texts of similar length go together, for padding is work; batches shrink when memory is short.
    """
    from engine.models.runtime import with_backoff

    return with_backoff(lambda size: _answers(bench, classifier, bench.table(split), size), bench.settings.batch)


@torch.no_grad()
def _answers(bench: TextBench, classifier: TextClassifier, table: pd.DataFrame, size: int) -> np.ndarray:
    texts, second = bench.pairs(table)
    order = np.argsort(
        [len(one) + len(other) for one, other in zip(texts, second or texts, strict=True)], kind="stable"
    )
    found = np.zeros((len(table), len(classifier.classes)), dtype=np.float32)
    for start in range(0, len(order), size):
        bench.hooks.check()
        rows = order[start : start + size]
        batch = classifier.encode([texts[row] for row in rows], second and [second[row] for row in rows])
        found[rows] = torch.softmax(classifier.logits(batch), dim=-1).cpu().numpy()
        bench.inside(min(1.0, (start + size) / len(order)))
    return found


def scored_texts(bench: TextBench, trial: int) -> pd.DataFrame:
    """Training texts that a score reads in one trial: a class-balanced sample of texts of usual length."""
    table = bench.table(TRAIN)
    words = (table["text"] + " " + table["text_b"]).str.split().str.len()
    usual = table[words.between(*words.quantile(list(MIDDLE)))]
    per_class = max(1, bench.settings.score_texts // usual["label"].nunique())
    parts = []
    for label, rows in usual.groupby("label"):
        order = rng("scored texts", bench.settings.first_seed + trial, label).permutation(len(rows))
        parts.append(rows.iloc[np.sort(order[:per_class])])
    return pd.concat(parts).sort_values("text_id").reset_index(drop=True)

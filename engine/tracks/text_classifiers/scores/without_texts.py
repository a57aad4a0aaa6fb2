"""Scores that read no text: the size of a head's weights, and chance, the floor of any method."""

from __future__ import annotations

import numpy as np

from engine.core.types import rng
from engine.tracks.text_classifiers.scores.base import (
    HeadImportance,
    ImportanceOfTexts,
    Texts,
    kept_units,
    nan_where_cut,
)


class Magnitude(HeadImportance):
    """The L2 norm of a head's weights: its q, k, v with their biases, and its share of the output
    projection, whose bias belongs to no head."""

    name = "magnitude"
    reads_texts = False

    def scored(self, texts: Texts) -> ImportanceOfTexts:
        """One row: the L2 norm of each head's weights and biases."""
        clf = texts.clf
        values = np.full(clf.n_layers * clf.n_heads, np.nan)
        for layer, units in enumerate(kept_units(clf)):
            texts.check()
            for place, unit in enumerate(units):
                parts = clf.adapter.head_tensors(clf.model, layer, place)
                values[unit] = np.sqrt(
                    sum(float(part.detach().double().square().sum()) for part in parts)
                )
        return nan_where_cut(clf, values[None])


class Random(HeadImportance):
    """A seeded random number per head; a head keeps its number while others are cut."""

    name = "random"
    reads_texts = False
    draws = True

    def scored(self, texts: Texts) -> ImportanceOfTexts:
        """One row of uniform numbers drawn with the seed."""
        texts.check()
        clf = texts.clf
        values = rng("random heads", texts.seed).random(clf.n_layers * clf.n_heads)
        return nan_where_cut(clf, values[None])

"""Magnitude: the L2 norm of a head's weights, its q, k, v and its share of the output
projection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.tracks.text_classifiers.scores.base import (
    HeadImportance,
    ImportanceOfTexts,
    finished,
    kept_units,
    settings_of,
)

if TYPE_CHECKING:
    from engine.models.load_text_classifier import TextClassifier


class Magnitude(HeadImportance):
    """Reads no text. Biases of q, k and v count, the output projection's belongs to no head."""

    name = "magnitude"
    reads_texts = False

    def importance(
        self,
        clf: TextClassifier,
        texts: Sequence[str],
        texts_b: Sequence[str] | None,
        labels: np.ndarray,
        settings: Mapping[str, Any],
        seed: int,
        check: Callable[[], None] = lambda: None,
        inside: Callable[[float], None] = lambda share: None,
    ) -> ImportanceOfTexts:
        """See `HeadImportance`: one row, the L2 norm of each head's weights and biases; labels
        [texts] are not read."""
        settings_of(self, settings)
        values = np.full(clf.n_layers * clf.n_heads, np.nan)
        for layer, units in enumerate(kept_units(clf)):
            check()
            for place, unit in enumerate(units):
                parts = clf.adapter.head_tensors(clf.model, layer, place)
                values[unit] = np.sqrt(
                    sum(float(part.detach().double().square().sum()) for part in parts)
                )
        return finished(clf, values[None])

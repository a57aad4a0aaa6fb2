"""Score heads at random: what any method must beat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.ids import rng
from engine.tracks.text_classifiers.scores.base import (
    HeadImportance,
    ImportanceOfTexts,
    finished,
    settings_of,
)

if TYPE_CHECKING:
    from engine.models.load_text_classifier import TextClassifier


class Random(HeadImportance):
    """A seeded random number per head; a head keeps its number while others are cut."""

    name = "random"
    reads_texts = False
    draws = True

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
        """See `HeadImportance`: one row of uniform numbers drawn with `seed`; labels [texts] are
        not read."""
        settings_of(self, settings)
        check()
        values = rng("random heads", seed).random(clf.n_layers * clf.n_heads)
        return finished(clf, values[None])

"""Captum's other layer attributions as scores: how much of the prediction passes through what a
head hands on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.types import Setting
from engine.tracks.text_classifiers.scores._maps import BASELINE, TARGET
from engine.tracks.text_classifiers.scores.base import (
    AT_ONCE,
    HeadImportance,
    ImportanceOfTexts,
    checked,
    finished,
    per_text,
)

if TYPE_CHECKING:
    from engine.models.load_text_classifier import TextClassifier


class CaptumLayer(HeadImportance):
    """E_x |Σ attribution| of a head's output, over tokens and width, by one of Captum's layer
    attributions."""

    not_in_key = ("at_once",)

    def __init__(self, name: str, attribute: str, settings: tuple[Setting, ...]) -> None:
        """attribute: the function of `engine.tracks.text_classifiers.captum_layers` that calls
        Captum."""
        self.name, self.attribute, self.settings = name, attribute, settings

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
        """See `HeadImportance`: labels [texts] int; per_text in logits."""
        import torch

        from engine.tracks.text_classifiers import captum_layers

        asked = checked(self, settings, clf, texts, texts_b, labels)
        attribute = getattr(captum_layers, self.attribute)

        def of_batch(rows: np.ndarray, batch: dict[str, Any], _: int) -> list[np.ndarray]:
            check()
            with torch.no_grad():
                predicted = clf.logits(batch).argmax(-1)
            gold = torch.as_tensor(np.asarray(labels)[rows], dtype=torch.int64, device=clf.device)
            target = gold if asked["target"] == "gold" else predicted
            found = captum_layers.head_outputs(
                clf, batch, target, attribute, asked.get("baseline", "pad")
            )
            return [sums.abs().cpu().numpy() for sums in found]

        return finished(clf, per_text(clf, texts, texts_b, asked["at_once"], of_batch, inside))


ROWS = (
    CaptumLayer("layer_integrated_gradients", "integrated_gradients", (TARGET, BASELINE, AT_ONCE)),
    CaptumLayer("gradient_x_activation", "gradient_x_activation", (TARGET, AT_ONCE)),
    CaptumLayer("deep_lift", "deep_lift", (TARGET, BASELINE, AT_ONCE)),
)

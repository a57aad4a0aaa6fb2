"""Captum's other layer attributions as scores: how much of the prediction passes through what a
head hands on."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.core.types import Setting
from engine.tracks.text_classifiers.scores.base import (
    AT_ONCE,
    HeadImportance,
    ImportanceOfTexts,
    Texts,
    nan_where_cut,
    per_text,
)
from engine.tracks.text_classifiers.scores.maps import BASELINE, TARGET


class CaptumLayer(HeadImportance):
    """E_x |Σ attribution| of a head's output, over tokens and width, by one of Captum's layer
    attributions."""

    not_in_key = ("at_once",)

    def __init__(self, name: str, attribute: str, settings: tuple[Setting, ...]) -> None:
        """attribute: the function of `engine.tracks.text_classifiers.captum_layers` that calls
        Captum."""
        self.name, self.attribute, self.settings = name, attribute, settings

    def scored(self, texts: Texts) -> ImportanceOfTexts:
        """per_text in logits."""
        import torch

        from engine.tracks.text_classifiers import captum_layers

        clf, asked = texts.clf, texts.asked
        attribute = getattr(captum_layers, self.attribute)

        def of_batch(rows: np.ndarray, batch: dict[str, Any], _: int) -> list[np.ndarray]:
            with torch.no_grad():
                target = clf.logits(batch).argmax(-1)
            if asked["target"] == "gold":
                target = torch.as_tensor(texts.labels[rows], dtype=torch.int64, device=clf.device)
            found = captum_layers.head_outputs(
                clf, batch, target, attribute, asked.get("baseline", "pad")
            )
            return [sums.abs().cpu().numpy() for sums in found]

        return nan_where_cut(clf, per_text(texts, of_batch))


ROWS = (
    CaptumLayer("layer_integrated_gradients", "integrated_gradients", (TARGET, BASELINE, AT_ONCE)),
    CaptumLayer("gradient_x_activation", "gradient_x_activation", (TARGET, AT_ONCE)),
    CaptumLayer("deep_lift", "deep_lift", (TARGET, BASELINE, AT_ONCE)),
)

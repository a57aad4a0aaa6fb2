"""Conductance for one fixed class, whatever is predicted: texts of two classes then cannot cancel
by their target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.errors import Fault
from engine.core.types import Setting
from engine.tracks.text_classifiers.scores._maps import (
    AT_ONCE,
    BASELINE,
    CORRELATION,
    STEPS,
    MapScore,
)

if TYPE_CHECKING:
    from torch import Tensor


class FixedClass(MapScore):
    """Eq. 6.4 of the thesis with Attr for the logit of one class (`place`, from 0, in the model's
    order of outputs)."""

    name = "fixed_class"
    settings = (
        STEPS,
        CORRELATION,
        Setting(
            "place",
            "integer",
            1,
            "The class whose logit is attributed, counted from 0.",
            0,
            label="class",
        ),
        BASELINE,
        AT_ONCE,
    )

    def class_faults(self, asked: Mapping[str, Any], n_classes: int) -> list[Fault]:
        """A class that the task has not."""
        if asked["place"] < n_classes:
            return []
        what = f"class {asked['place']} is none of {n_classes}, counted from 0."
        return [Fault(f"{self.name}.place", what, f"Give 0 to {n_classes - 1}.")]

    def targets(self, labels: np.ndarray, asked: Mapping[str, Any]) -> tuple[str, np.ndarray]:
        """The same class for every text."""
        return "gold", np.full_like(labels, asked["place"])

    def of_maps(
        self, attention: Tensor, attribution: Tensor, valid: Tensor, asked: Mapping[str, Any]
    ) -> Tensor:
        """Correlation of attention and attribution per text and head; NaN for constant maps."""
        from engine.tracks.text_classifiers.map_correlation import correlations

        return correlations(attention, attribution, valid, asked["correlation"])

"""|corr|: how strongly a head's attention goes with its attribution, whichever way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.tracks.text_classifiers.scores._maps import (
    AT_ONCE,
    BASELINE,
    CORRELATION,
    STEPS,
    TARGET,
    MapScore,
)

if TYPE_CHECKING:
    from torch import Tensor


class AbsCorr(MapScore):
    """E_x |corr(Attr(A), A)|: Eq. 6.4 of the thesis without the sign, so that texts of two classes
    cannot cancel."""

    name = "abs_corr"
    settings = (STEPS, CORRELATION, TARGET, BASELINE, AT_ONCE)

    def of_maps(
        self, attention: Tensor, attribution: Tensor, valid: Tensor, asked: Mapping[str, Any]
    ) -> Tensor:
        """Size of the correlation of attention and attribution per text and head; NaN for constant
        maps."""
        from engine.tracks.text_classifiers.map_correlation import correlations

        return correlations(attention, attribution, valid, asked["correlation"]).abs()

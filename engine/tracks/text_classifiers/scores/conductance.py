"""Conductance: how well a head's attention agrees with its attribution, map by map."""

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


class Conductance(MapScore):
    """Thesis, Eq. 6.4: I_{L,H} = E_x corr(Attr(A_{L,H}), A_{L,H}), over pairs of tokens that are no
    padding.

    A_{L,H}: the attention probabilities of head H in layer L, tokens x tokens; Attr: their
    conductance; corr: Spearman unless asked otherwise; E_x: the mean over texts. Lowest is cut
    first.
    """

    name = "conductance"
    settings = (STEPS, CORRELATION, TARGET, BASELINE, AT_ONCE)

    def of_maps(
        self, attention: Tensor, attribution: Tensor, valid: Tensor, asked: Mapping[str, Any]
    ) -> Tensor:
        """Correlation of attention and attribution per text and head; NaN for constant maps."""
        from engine.tracks.text_classifiers.map_correlation import correlations

        return correlations(attention, attribution, valid, asked["correlation"])

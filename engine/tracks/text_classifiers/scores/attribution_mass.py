"""Attribution mass: how much of the prediction passes through a head's attention, in logits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.tracks.text_classifiers.scores._maps import MapScore

if TYPE_CHECKING:
    from torch import Tensor


class AttributionMass(MapScore):
    """E_x |Σ_ij Attr(A)_ij|, over pairs of tokens that are no padding: the size that Eq. 6.4's
    correlation leaves out.

    Attr is the conductance of the attention probabilities, as for `conductance`; its sum is what
    moving this head's attention from the baseline's to the text's does to the logit, all else on
    the path.
    """

    name = "attribution_mass"

    def of_maps(
        self, attention: Tensor, attribution: Tensor, valid: Tensor, asked: Mapping[str, Any]
    ) -> Tensor:
        """|Σ| of each attribution map, in logits."""
        pairs = valid[:, None, :, None] & valid[:, None, None, :]
        return attribution.double().masked_fill(~pairs, 0.0).sum((2, 3)).abs()

"""bifp-str-no-w: BiFP w/o w, whose weights learn from the loss alone (ablation, Fig. 7)."""

from __future__ import annotations

from engine.tracks.fair_training.methods.bifp_str import BifpFilters


class WithoutFairWeights(BifpFilters):
    """BiFP w/o w: the weights learn from the loss alone."""

    name = "bifp-str-no-w"
    fair_weights = False

"""bifp-str-no-m: BiFP w/o m, whose mask learns from the loss alone (ablation, Fig. 7)."""

from __future__ import annotations

from engine.tracks.fair_training.methods.bifp_str import BifpFilters


class WithoutFairMask(BifpFilters):
    """BiFP w/o m: the mask learns from the loss alone."""

    name = "bifp-str-no-m"
    fair_mask = False

"""bifp-str-no-both: mask and weights trained together without any fairness term (ablation, Fig. 7)."""

from __future__ import annotations

from engine.tracks.fair_training.methods.bifp_str import BifpFilters


class WithoutBoth(BifpFilters):
    """BiFP w/o w&m: mask and weights trained together, without any fairness term."""

    name = "bifp-str-no-both"
    fair = False
    fair_mask = fair_weights = False

"""BiFP-str with the fairness term taken from the mask, from the weights, or from both (BiFP, Fig.
7)."""

from __future__ import annotations

from dataclasses import dataclass

from engine.tracks.fair_training.methods.bifp_str import BifpFilters


@dataclass(frozen=True)
class Ablation(BifpFilters):
    """BiFP-str whose mask or weights learn from the loss alone."""

    name: str
    fair_mask: bool = True
    fair_weights: bool = True
    fair: bool = True
    version: int = BifpFilters.version + 1  # theirs changes with what they are ablations of


ROWS = (
    Ablation("bifp-str-no-both", fair_mask=False, fair_weights=False, fair=False),
    Ablation("bifp-str-no-m", fair_mask=False),
    Ablation("bifp-str-no-w", fair_weights=False),
)

"""Controls in BiFP's widths: as many filters of each layer as BiFP-str kept, but others, trained as
P&F.

They tell what BiFP learned about filters from what it learned about layers.
"""

from __future__ import annotations

from engine.core.types import Setting
from engine.tracks.fair_training.methods._stages import SHARPNESS
from engine.tracks.fair_training.methods.base import DRAWS
from engine.tracks.fair_training.methods.bifp_str import BifpFilters
from engine.tracks.fair_training.methods.pf import PruneThenFair, at_random, by_median

TIMES = Setting(
    DRAWS,
    "integer",
    3,
    "Random masks of each seed, each with its own training.",
    1,
    100,
    label="Random masks per seed",
)

ROWS = (
    PruneThenFair("bifp-widths-fpgm", by_median, widths_of=BifpFilters.name),
    PruneThenFair(
        "bifp-widths-random", at_random, settings=(SHARPNESS, TIMES), widths_of=BifpFilters.name
    ),
)

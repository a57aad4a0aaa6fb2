"""bifp-str: BiFP on whole filters, which are cut for real."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.tracks.fair_training.methods._bifp import Bifp
from engine.tracks.fair_training.methods._stages import by_chance, geometric_median
from engine.tracks.fair_training.methods.base import FILTERS, FairJob

if TYPE_CHECKING:
    from engine.tracks.fair_training.training.trainer import Trainer


class BifpFilters(Bifp):
    """BiFP-str."""

    name = "bifp-str"
    units = FILTERS

    def first_scores(self, job: FairJob, trainer: Trainer) -> np.ndarray:
        """FPGM's ranks, or ranks drawn at random, within each layer: [filters] in (0, 1]."""
        return geometric_median(job) if self.setting(job, "start") == "weights" else by_chance(job)

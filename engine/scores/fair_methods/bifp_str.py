"""bifp-str: BiFP on whole filters, which are cut for real."""

from __future__ import annotations

import numpy as np

from engine.scores.fair_base import FILTERS, FairJob
from engine.scores.fair_methods._bifp import Bifp
from engine.scores.fair_methods._stages import by_chance, geometric_median


class BifpFilters(Bifp):
    """BiFP-str."""

    name = "bifp-str"
    units = FILTERS

    def first_scores(self, job: FairJob, trainer: object) -> np.ndarray:
        return geometric_median(job) if self.setting(job, "start") == "weights" else by_chance(job)

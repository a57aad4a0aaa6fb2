"""pf-snip: prune weights by SNIP, then train fairly."""

from __future__ import annotations

import numpy as np

from engine.scores.fair_base import WEIGHTS, FairJob
from engine.scores.fair_methods._stages import SHARPNESS, sensitivity
from engine.scores.fair_methods.pf import PruneThenFair
from engine.scores.fair_methods.snip import BATCHES


class PruneThenFairWeights(PruneThenFair):
    """The same weights as snip."""

    name = "pf-snip"
    version = 2
    units = WEIGHTS
    settings = (SHARPNESS, BATCHES)

    def scores(self, job: FairJob, trainer: object) -> np.ndarray:
        return sensitivity(job, trainer, self.setting(job, "batches"))

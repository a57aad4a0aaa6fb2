"""pf-snip: prune weights by SNIP, then train fairly."""

from __future__ import annotations

import numpy as np

from engine.tracks.fair_training.methods._stages import SHARPNESS, sensitivity
from engine.tracks.fair_training.methods.base import WEIGHTS, FairJob
from engine.tracks.fair_training.methods.pf import PruneThenFair
from engine.tracks.fair_training.methods.snip import BATCHES


class PruneThenFairWeights(PruneThenFair):
    """The same weights as snip."""

    name = "pf-snip"
    version = 2
    units = WEIGHTS
    settings = (SHARPNESS, BATCHES)

    def scores(self, job: FairJob, trainer: object) -> np.ndarray:
        return sensitivity(job, trainer, self.setting(job, "batches"))

"""bifp-uns: BiFP on single weights, which are set to zero; nothing gets faster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from engine.core.ids import rng
from engine.tracks.fair_training.methods._bifp import Bifp
from engine.tracks.fair_training.methods._stages import magnitudes
from engine.tracks.fair_training.methods.base import WEIGHTS, FairJob

if TYPE_CHECKING:
    from engine.tracks.fair_training.training.trainer import Trainer


class BifpWeights(Bifp):
    """BiFP-uns."""

    name = "bifp-uns"
    units = WEIGHTS
    settings = (replace(Bifp.settings[0], default=0.05), *Bifp.settings[1:])

    def first_scores(self, job: FairJob, trainer: Trainer) -> np.ndarray:
        """Ranks of the weights' magnitudes, or of random numbers, over all layers: [weights]
        float64 in (0, 1]."""
        by_weights = self.setting(job, "start") == "weights"
        total = trainer.masked.total
        scores = (
            magnitudes(trainer) if by_weights else rng("random weights", job.seed).random(total)
        )
        found = np.empty(total)
        found[np.lexsort((-np.arange(total), scores))] = np.arange(1, total + 1) / total
        return found

"""pf-random: cut filters drawn at random, then train fairly: the control for every way to choose them."""

from __future__ import annotations

import numpy as np

from engine.tracks.fair_training.methods._stages import by_chance
from engine.tracks.fair_training.methods.base import FairJob
from engine.tracks.fair_training.methods.pf import PruneThenFair


class PruneThenFairRandom(PruneThenFair):
    """What fair training does whichever filters are cut."""

    name = "pf-random"

    def scores(self, job: FairJob, trainer: object) -> np.ndarray:
        return by_chance(job)

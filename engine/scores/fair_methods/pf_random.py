"""pf-random: cut filters drawn at random, then train fairly: the control for every way to choose them."""

from __future__ import annotations

import numpy as np

from engine.scores.fair_base import FairJob
from engine.scores.fair_methods._stages import by_chance
from engine.scores.fair_methods.pf import PruneThenFair


class PruneThenFairRandom(PruneThenFair):
    """What fair training does whichever filters are cut."""

    name = "pf-random"

    def scores(self, job: FairJob, trainer: object) -> np.ndarray:
        return by_chance(job)

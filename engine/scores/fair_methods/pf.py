"""pf: prune, then train fairly (P&F). By filters, by weights, late, and with filters drawn at random as the control."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.scores.fair_base import WEIGHTS, FairJob, FairMethod, Trained
from engine.scores.fair_methods._stages import (
    SHARPNESS,
    by_chance,
    finished,
    geometric_median,
    halves,
    prune,
    sensitivity,
    trainer_of,
)
from engine.scores.fair_methods.snip import BATCHES
from engine.types import Setting


class PruneThenFair(FairMethod):
    """FPGM cuts filters of the model as it comes; what is left is trained with the fairness term from the start."""

    name = "pf"
    fair = True
    settings = (SHARPNESS,)

    def scores(self, job: FairJob, trainer: object) -> np.ndarray:
        """By what is pruned, [units]."""
        return geometric_median(job)

    def first(self, job: FairJob) -> float:
        """Share of the iterations that are trained plainly after the cut."""
        return 0.0

    def train(self, job: FairJob) -> Iterator[Trained]:
        (sparsity,) = job.sparsities
        trainer = trainer_of(self, job)
        prune(self, job, trainer, self.scores(job, trainer), sparsity)
        plain, fair = halves(job, self.first(job))
        if plain:
            trainer.run("plain", plain)
        trainer.run("fair", fair, job.strength)
        yield finished(self, trainer, sparsity)


class PruneThenFairLate(PruneThenFair):
    """Two stages, as the paper's baselines are amended (Sec. 5.3): plain training after the cut, then fair training."""

    name = "pf-late"
    settings = (SHARPNESS, Setting("first", "number", 0.5, "Share of the iterations trained plainly first.", 0.0, 1.0))

    def first(self, job: FairJob) -> float:
        return self.setting(job, "first")


class PruneThenFairWeights(PruneThenFair):
    """SNIP cuts weights."""

    name = "pf-snip"
    units = WEIGHTS
    settings = (SHARPNESS, BATCHES)

    def scores(self, job: FairJob, trainer: object) -> np.ndarray:
        return sensitivity(job, trainer, self.setting(job, "batches"))


class PruneThenFairRandom(PruneThenFair):
    """Filters drawn at random: what fair training does whichever filters are cut."""

    name = "pf-random"

    def scores(self, job: FairJob, trainer: object) -> np.ndarray:
        return by_chance(job)

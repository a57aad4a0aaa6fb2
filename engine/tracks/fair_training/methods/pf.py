"""pf: prune, then train fairly (P&F)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.tracks.fair_training.methods._stages import (
    SHARPNESS,
    finished,
    geometric_median,
    halves,
    prune,
    trainer_of,
)
from engine.tracks.fair_training.methods.base import FairJob, FairMethod, Trained


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

"""dense-fair: nothing is cut; trained with the fairness term."""

from __future__ import annotations

from collections.abc import Iterator

from engine.scores.fair_base import NONE, FairJob, FairMethod, Trained
from engine.scores.fair_methods._stages import SHARPNESS, finished, trainer_of


class DenseFair(FairMethod):
    """Cross-entropy + λ times the gap."""

    name = "dense-fair"
    units = NONE
    fair = True
    settings = (SHARPNESS,)

    def train(self, job: FairJob) -> Iterator[Trained]:
        trainer = trainer_of(self, job)
        trainer.run("fair", job.iterations, job.strength)
        yield finished(self, trainer, 0.0)

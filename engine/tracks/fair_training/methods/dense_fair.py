"""dense-fair: nothing is cut; trained with the fairness term."""

from __future__ import annotations

from collections.abc import Iterator

from engine.tracks.fair_training.methods._stages import SHARPNESS, finished, trainer_of
from engine.tracks.fair_training.methods.base import NONE, FairJob, FairMethod, Trained


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

"""dense-tuned: nothing is cut; trained as long as the others, so that they are not held against a shorter training."""

from __future__ import annotations

from collections.abc import Iterator

from engine.tracks.fair_training.methods._stages import finished, trainer_of
from engine.tracks.fair_training.methods.base import NONE, FairJob, FairMethod, Trained


class DenseTuned(FairMethod):
    """Plain cross-entropy."""

    name = "dense-tuned"
    units = NONE

    def train(self, job: FairJob) -> Iterator[Trained]:
        trainer = trainer_of(self, job)
        trainer.run("plain", job.iterations)
        yield finished(self, trainer, 0.0)

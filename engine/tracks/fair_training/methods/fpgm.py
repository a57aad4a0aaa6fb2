"""fpgm: cut the filters nearest to the geometric median of their layer, once, then train (He et al.
2019)."""

from __future__ import annotations

from collections.abc import Iterator

from engine.tracks.fair_training.methods._stages import (
    finished,
    geometric_median,
    prune,
    trainer_of,
)
from engine.tracks.fair_training.methods.base import FairJob, FairMethod, Trained


class FairFpgm(FairMethod):
    """Every layer loses about the same share."""

    name = "fpgm"

    def train(self, job: FairJob) -> Iterator[Trained]:
        (sparsity,) = job.sparsities
        trainer = trainer_of(self, job)
        prune(self, job, trainer, geometric_median(job), sparsity)
        trainer.run("plain", job.iterations)
        yield finished(self, trainer, sparsity)

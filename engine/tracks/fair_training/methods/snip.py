"""snip: cut the weights to which the loss is least sensitive, once, then train (Lee et al.
2019)."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.types import Setting
from engine.tracks.fair_training.methods._stages import finished, prune, sensitivity, trainer_of
from engine.tracks.fair_training.methods.base import WEIGHTS, FairJob, FairMethod, Trained

BATCHES = Setting(
    "batches",
    "integer",
    10,
    "Batches over which SNIP sums gradients.",
    1,
    10_000,
    label="Batches read before the cut",
)


class Snip(FairMethod):
    """Single-shot network pruning of the model as it comes."""

    name = "snip"
    version = 2
    units = WEIGHTS
    settings = (BATCHES,)

    def train(self, job: FairJob) -> Iterator[Trained]:
        (sparsity,) = job.sparsities
        trainer = trainer_of(self, job)
        prune(self, job, trainer, sensitivity(job, trainer, self.setting(job, "batches")), sparsity)
        trainer.run("plain", job.iterations)
        yield finished(self, trainer, sparsity)

"""fp: train fairly, then prune (F&P): the fairness term acts on the whole model, FPGM cuts it, then
plain training."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.types import Setting
from engine.tracks.fair_training.methods._stages import (
    SHARPNESS,
    finished,
    geometric_median,
    halves,
    prune,
    trainer_of,
)
from engine.tracks.fair_training.methods.base import FairJob, FairMethod, Trained


class FairThenPrune(FairMethod):
    """Both stages together take as long as the others take."""

    name = "fp"
    fair = True
    settings = (
        SHARPNESS,
        Setting(
            "first",
            "number",
            0.5,
            "Share of the iterations trained fairly first.",
            0.0,
            1.0,
            label="Share trained fairly before the cut",
        ),
    )

    def train(self, job: FairJob) -> Iterator[Trained]:
        (sparsity,) = job.sparsities
        trainer = trainer_of(self, job)
        fair, plain = halves(job, self.setting(job, "first"))
        if fair:
            trainer.run("fair", fair, job.strength)
        prune(self, job, trainer, geometric_median(job), sparsity)
        trainer.run("plain", plain)
        yield finished(self, trainer, sparsity)

"""Nothing is cut; trained as long as the others, so that no comparison is with a shorter
training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.core.types import Setting
from engine.tracks.fair_training.methods._stages import SHARPNESS, finished, trainer_of
from engine.tracks.fair_training.methods.base import NONE, FairJob, FairMethod, Trained


@dataclass(frozen=True)
class Dense(FairMethod):
    """Cross-entropy; with `fair` plus λ times the gap."""

    name: str
    fair: bool
    settings: tuple[Setting, ...] = ()
    units: str = NONE
    version: int = 1

    def train(self, job: FairJob) -> Iterator[Trained]:
        trainer = trainer_of(self, job)
        if self.fair:
            trainer.run("fair", job.iterations, job.strength)
        else:
            trainer.run("plain", job.iterations)
        yield finished(self, trainer, 0.0)


ROWS = (
    Dense("dense-fair", fair=True, settings=(SHARPNESS,)),
    Dense("dense-tuned", fair=False),
)

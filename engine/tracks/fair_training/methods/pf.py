"""Prune, then train fairly (P&F): which scores cut, and how much plain training comes before the
fairness term acts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.core.types import Setting
from engine.tracks.fair_training.methods._stages import (
    SHARPNESS,
    by_chance,
    finished,
    geometric_median,
    halves,
    prune,
    sensitivity,
    trainer_of,
)
from engine.tracks.fair_training.methods.base import FILTERS, WEIGHTS, FairJob, FairMethod, Trained
from engine.tracks.fair_training.methods.snip import BATCHES, Snip

FIRST = Setting(
    "first",
    "number",
    0.5,
    "Share of the iterations trained plainly first.",
    0.0,
    1.0,
    label="Share trained plainly after the cut",
)


@dataclass(frozen=True)
class PruneThenFair(FairMethod):
    """Cuts the model as it comes; what is left is trained with the fairness term, with FIRST
    plainly before."""

    name: str
    scores: Callable[[FairMethod, FairJob, Any], np.ndarray]
    """(method, job, trainer) -> the scores that units are cut by, [units]."""
    units: str = FILTERS
    settings: tuple[Setting, ...] = (SHARPNESS,)
    version: int = 1
    fair: bool = True
    widths_of: str = ""

    def train(self, job: FairJob) -> Iterator[Trained]:
        (sparsity,) = job.sparsities
        trainer = trainer_of(self, job)
        prune(self, job, trainer, self.scores(self, job, trainer), sparsity)
        plain, fair = halves(job, self.setting(job, "first") if FIRST in self.settings else 0.0)
        if plain:
            trainer.run("plain", plain)
        trainer.run("fair", fair, job.strength)
        yield finished(self, trainer, sparsity)


def by_median(method: FairMethod, job: FairJob, trainer: Any) -> np.ndarray:
    """FPGM's ranks, [filters]."""
    return geometric_median(job)


def at_random(method: FairMethod, job: FairJob, trainer: Any) -> np.ndarray:
    """Random ranks, [filters]."""
    return by_chance(job)


def _snip(method: FairMethod, job: FairJob, trainer: Any) -> np.ndarray:
    """SNIP's sensitivity, [weights]."""
    return sensitivity(job, trainer, method.setting(job, "batches"))


ROWS = (
    PruneThenFair("pf", by_median),
    # The two stages that BiFP's paper amends its baselines with (BiFP, Sec. 5.3): the same filters
    # as pf.
    PruneThenFair("pf-late", by_median, settings=(SHARPNESS, FIRST)),
    # What fair training does whichever filters are cut: the control for every way to choose them.
    PruneThenFair("pf-random", at_random),
    # The same weights as snip, by the same code.
    PruneThenFair(
        "pf-snip", _snip, units=WEIGHTS, settings=(SHARPNESS, BATCHES), version=Snip.version
    ),
)

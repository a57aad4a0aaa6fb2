"""Methods that train in stages: those that cut once at most, and the Lottery Ticket.

Pruning alone (SNIP, Lee et al. 2019; FPGM, He et al. 2019), prune then fair (P&F), fair then prune
(F&P), nothing cut, and controls in the widths that BiFP-str kept.

Both stages together take as long as the others take. The controls tell what BiFP learned about
filters from what it learned about layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.core.types import Setting
from engine.tracks.fair_training.methods import (
    DRAWS,
    FILTERS,
    NONE,
    WEIGHTS,
    FairJob,
    FairMethod,
    Trained,
)
from engine.tracks.fair_training.methods.bifp import (
    SHARPNESS,
    STRUCTURED,
    by_chance,
    finished,
    geometric_median,
    magnitudes,
    prune,
    sensitivity,
    trainer_of,
)

CUT, PLAIN, FAIR = "cut", "plain", "fair"
"""What follows each other in a method; `plain` and `fair` are phases of training, without and with
the fairness term."""
Scores = Callable[[FairMethod, FairJob, Any], np.ndarray]
"""(method, job, trainer) -> the scores that units are cut by, [units]."""


def by_median(method: FairMethod, job: FairJob, trainer: Any) -> np.ndarray:
    """FPGM's ranks, [filters]."""
    return geometric_median(job)


def at_random(method: FairMethod, job: FairJob, trainer: Any) -> np.ndarray:
    """Random ranks, [filters]."""
    return by_chance(job)


def by_sensitivity(method: FairMethod, job: FairJob, trainer: Any) -> np.ndarray:
    """SNIP's sensitivity, [weights]."""
    return sensitivity(job, trainer, method.setting(job, "batches"))


@dataclass(frozen=True)
class Stages(FairMethod):
    """One stage after the other. Of two trainings the first takes the share `first` of the
    iterations, and is left out where that is none."""

    name: str
    steps: tuple[str, ...]
    scores: Scores = by_median
    settings: tuple[Setting, ...] = ()
    units: str = FILTERS
    version: int = 1
    widths_of: str = ""

    @property
    def fair(self) -> bool:  # type: ignore[override]
        return FAIR in self.steps

    def train(self, job: FairJob) -> Iterator[Trained]:
        (sparsity,) = job.sparsities
        trainer, left = trainer_of(self, job), job.iterations
        trainings = [step for step in self.steps if step != CUT]
        for step in self.steps:
            if step == CUT:
                prune(self, job, trainer, self.scores(self, job, trainer), sparsity)
                continue
            trainings.pop(0)
            length = round(self.setting(job, "first") * job.iterations) if trainings else left
            left -= length
            if length or not trainings:
                trainer.run(step, length, job.strength if step == FAIR else 0.0)
        yield finished(self, trainer, sparsity)


def _first(said: str, label: str) -> Setting:
    return Setting("first", "number", 0.5, said, 0.0, 1.0, label=label)


AFTER_CUT = _first(
    "Share of the iterations trained plainly first.", "Share trained plainly after the cut"
)
BEFORE_CUT = _first(
    "Share of the iterations trained fairly first.", "Share trained fairly before the cut"
)
BATCHES = Setting(
    "batches",
    "integer",
    10,
    "Batches over which SNIP sums gradients.",
    1,
    10_000,
    label="Batches read before the cut",
)
TIMES = Setting(
    DRAWS,
    "integer",
    3,
    "Random masks of each seed, each with its own training.",
    1,
    100,
    label="Random masks per seed",
)
SNIP = 2
"""Version of what SNIP cuts: whoever cuts by it has the same."""
SHARP = (SHARPNESS,)

ROWS = (
    Stages("dense-tuned", (PLAIN,), units=NONE),
    Stages("dense-fair", (FAIR,), settings=SHARP, units=NONE),
    Stages("fpgm", (CUT, PLAIN)),
    Stages("snip", (CUT, PLAIN), by_sensitivity, (BATCHES,), WEIGHTS, SNIP),
    Stages("pf", (CUT, FAIR), settings=SHARP),
    # The two stages that BiFP's paper amends its baselines with (BiFP, Sec. 5.3): the same filters
    # as pf.
    Stages("pf-late", (CUT, PLAIN, FAIR), settings=(SHARPNESS, AFTER_CUT)),
    # What fair training does whichever filters are cut: the control for every way to choose them.
    Stages("pf-random", (CUT, FAIR), at_random, SHARP),
    # The same weights as snip, by the same code.
    Stages("pf-snip", (CUT, FAIR), by_sensitivity, (SHARPNESS, BATCHES), WEIGHTS, SNIP),
    Stages("fp", (FAIR, CUT, PLAIN), settings=(SHARPNESS, BEFORE_CUT)),
    Stages("bifp-widths-fpgm", (CUT, FAIR), settings=SHARP, widths_of=STRUCTURED),
    Stages("bifp-widths-random", (CUT, FAIR), at_random, (SHARPNESS, TIMES), widths_of=STRUCTURED),
)


# lottery: train, cut the smallest weights, rewind the others, again and again (Frankle and Carbin
# 2018).


ROUNDED = 0.05
"""Share of a round that is forgiven: 0.832, written with a few digits for 1 - 0.8^8, asks for no
further round."""


class Lottery(FairMethod):
    """Every round cuts a share of the weights that are left, by |theta| over all layers, and
    rewinds the rest to where the training started. One descent serves all sparsities; the last
    round before each is cut short to meet it.
    """

    name = "lottery"
    units = WEIGHTS
    one_descent = True
    version = 2
    rounds_of_all = 4.0
    settings = (
        Setting(
            "share",
            "number",
            0.2,
            "Share of the remaining weights cut per round.",
            0.01,
            0.9,
            label="Share of weights cut per round",
        ),
        Setting(
            "round",
            "number",
            1.0,
            "Iterations of a round before a cut, as a share of all.",
            0.0,
            1.0,
            label="Length of a round (1: a whole training)",
        ),
    )

    def train(self, job: FairJob) -> Iterator[Trained]:
        trainer = trainer_of(self, job)
        start = {name: value.clone() for name, value in job.classifier.model.state_dict().items()}
        left, number = 1.0, 0
        length = max(1, int(round(self.setting(job, "round") * job.iterations)))
        for sparsity in job.sparsities:
            rounds = _rounds(left, 1.0 - sparsity, self.setting(job, "share"))
            for place in range(rounds):
                number += 1
                trainer.run(f"round-{number}", length)
                left *= 1.0 - self.setting(job, "share")
                at = sparsity if place == rounds - 1 else 1.0 - left
                prune(self, job, trainer, _alive(trainer), at)
                job.classifier.model.load_state_dict(start)
            left = 1.0 - sparsity
            path = trainer.mark()
            trainer.run(f"final-{number}", job.iterations)
            yield trainer.result(sparsity, zeros=True)
            trainer.back_to(
                path
            )  # the last training of this sparsity leads nowhere else, so nothing else pays for it
            job.classifier.model.load_state_dict(start)
        trainer.done()


def _alive(trainer: Any) -> np.ndarray:
    """|theta|, and less than any where a weight is cut already: [weights]."""
    found = magnitudes(trainer)
    return found if trainer.keep is None else np.where(trainer.keep, found, -1.0)


def _rounds(left: float, goal: float, share: float) -> int:
    """Rounds until only `goal` of the weights is left; at least one where anything is to be cut."""
    if goal >= left:
        return 0
    return max(1, math.ceil(math.log(goal / left) / math.log(1.0 - share) - ROUNDED))

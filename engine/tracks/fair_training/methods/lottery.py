"""lottery: train, cut the smallest weights, rewind the others, again and again (Frankle and Carbin
2018)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from engine.core.types import Setting
from engine.tracks.fair_training.methods.base import WEIGHTS, FairJob, FairMethod, Trained
from engine.tracks.fair_training.methods.bifp import magnitudes, prune, trainer_of

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

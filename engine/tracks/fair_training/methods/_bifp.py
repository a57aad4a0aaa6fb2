"""What BiFP is, whatever its units: mask and weights trained together under the fairness term."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from engine.core.types import Setting
from engine.tracks.fair_training.methods._stages import SHARPNESS, by_flops, finished, trainer_of
from engine.tracks.fair_training.methods.base import FairJob, FairMethod, Trained

if TYPE_CHECKING:
    from engine.tracks.fair_training.training.trainer import Trainer


class Bifp(FairMethod):
    """Lower level: weights; upper level: mask scores with the implicit gradient; the hard mask is
    the best k."""

    fair = True
    version = 2
    fair_weights = True
    fair_mask = True
    settings = (
        Setting(
            "mask_rate",
            "number",
            0.1,
            "Learning rate of the mask scores, β (scores in [0, 1]).",
            0.0,
            1.0,
            label="Learning rate of the mask",
        ),
        Setting(
            "inner",
            "integer",
            1,
            "Weight updates between two updates of the mask.",
            1,
            10_000,
            label="Weight updates per mask update",
        ),
        Setting(
            "rho",
            "number",
            1.0,
            "ρ of the lower level's ridge in the implicit gradient.",
            1e-6,
            1e6,
            label="ρ of the implicit gradient",
        ),
        Setting(
            "implicit",
            "choice",
            "cross",
            "Implicit gradient: cross (chain rule, with the gradients of both levels), derived"
            " (that of the upper level for both), published (Zhang et al., lets cut units grow back"
            " by their gradient), none (first order).",
            choices=("cross", "derived", "published", "none"),
            label="Implicit gradient",
        ),
        Setting(
            "own",
            "number",
            0.0,
            "Share of the images that the mask alone learns from; 0: both levels read all, "
            "and the implicit term says nothing new.",
            0.0,
            0.9,
            label="Share of images for the mask alone",
        ),
        Setting(
            "ridge",
            "flag",
            False,
            "Train the weights with the ridge ρ/2 |θ|² that the implicit gradient assumes, "
            "in place of weight decay.",
            label="Weights with the matching ridge",
        ),
        Setting(
            "update",
            "choice",
            "budget",
            "How the mask follows its gradient: budget (momentum, one scale, scores "
            "that keep their sum), plain (Eq. 9 alone: m − β gradient, in [0, 1]).",
            choices=("budget", "plain"),
            label="Update of the mask",
        ),
        Setting(
            "settle",
            "number",
            0.25,
            "Share of the iterations, at the end, in which the mask is fixed.",
            0.0,
            1.0,
            label="Share with a fixed mask at the end",
        ),
        Setting(
            "start",
            "choice",
            "weights",
            "First mask: by the weights (filters: FPGM; weights: magnitude) or at random.",
            choices=("weights", "random"),
            label="First mask",
        ),
        SHARPNESS,
    )

    @abstractmethod
    def first_scores(self, job: FairJob, trainer: Trainer) -> np.ndarray:
        """Scores in (0, 1] before any training, [units]."""

    def train(self, job: FairJob) -> Iterator[Trained]:
        from engine.tracks.fair_training.training.mask_optimizer import FlopMask
        from engine.tracks.fair_training.training.masked import kept_of
        from engine.tracks.fair_training.training.trainer import MaskLearning

        (sparsity,) = job.sparsities
        trainer = trainer_of(self, job)
        count, flops = kept_of(trainer.masked.total, sparsity), None
        scores = self.first_scores(job, trainer)
        if by_flops(self, job):
            flops = FlopMask(job.graph, 1.0 - sparsity)
            trainer.cut(flops.best(scores), scores)
        else:
            trainer.keep_best(scores, count)
        learning = MaskLearning(
            count,
            job.strength if self.fair_mask else 0.0,
            self.setting(job, "mask_rate"),
            self.setting(job, "inner"),
            self.setting(job, "rho"),
            self.setting(job, "implicit"),
            self.setting(job, "settle"),
            flops,
            self.setting(job, "update") == "plain",
            self.setting(job, "own"),
            self.setting(job, "ridge"),
        )
        trainer.run("both", job.iterations, job.strength if self.fair_weights else 0.0, learning)
        yield finished(self, trainer, sparsity)

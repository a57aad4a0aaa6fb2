"""BiFP: mask and weights trained together under the fairness term.

Of whole filters, which are cut for real, or of single weights, which are set to zero. Ablations are
BiFP-str with the fairness term taken from the mask, from the weights, or from both (BiFP, Fig. 7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from engine.core.ids import rng
from engine.core.types import Setting
from engine.tracks.fair_training.methods._shared import (
    SHARPNESS,
    by_chance,
    by_flops,
    finished,
    geometric_median,
    magnitudes,
    trainer_of,
)
from engine.tracks.fair_training.methods.base import (
    FILTERS,
    WEIGHTS,
    FairJob,
    FairMethod,
    Trained,
)

if TYPE_CHECKING:
    from engine.tracks.fair_training.training.trainer import Trainer

VERSION = 2
STRUCTURED = "bifp-str"
SETTINGS = (
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
        "Implicit gradient. cross: chain rule, with the gradients of both levels; derived: the "
        "upper level's for both. published: Zhang et al., cut units grow back by their gradient; "
        "none: first order.",
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


@dataclass(frozen=True)
class Bifp(FairMethod):
    """Lower level: weights; upper level: mask scores with the implicit gradient; the hard mask is
    the best k."""

    name: str
    units: str = FILTERS
    fair_mask: bool = True
    fair_weights: bool = True
    fair: bool = True
    settings: tuple[Setting, ...] = SETTINGS
    version: int = VERSION

    def first_scores(self, job: FairJob, trainer: Trainer) -> np.ndarray:
        """Scores in (0, 1] before any training, [units]: ranks by the weights or at random, of
        filters within each layer, of single weights over all layers."""
        by_weights = self.setting(job, "start") == "weights"
        if self.units == FILTERS:
            return geometric_median(job) if by_weights else by_chance(job)
        total = trainer.masked.total
        scores = (
            magnitudes(trainer) if by_weights else rng("random weights", job.seed).random(total)
        )
        found = np.empty(total)
        found[np.lexsort((-np.arange(total), scores))] = np.arange(1, total + 1) / total
        return found

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


ABLATED = VERSION + 1
"""Of the ablations, which change with what they are ablations of."""
ROWS = (
    Bifp(STRUCTURED),
    Bifp(f"{STRUCTURED}-no-both", fair_mask=False, fair_weights=False, fair=False, version=ABLATED),
    Bifp(f"{STRUCTURED}-no-m", fair_mask=False, version=ABLATED),
    Bifp(f"{STRUCTURED}-no-w", fair_weights=False, version=ABLATED),
    Bifp("bifp-uns", WEIGHTS, settings=(replace(SETTINGS[0], default=0.05), *SETTINGS[1:])),
)

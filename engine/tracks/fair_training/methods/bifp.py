"""BiFP: mask and weights trained together under the fairness term.

Of whole filters, which are cut for real, or of single weights, which are set to zero. Ablations are
BiFP-str with the fairness term taken from the mask, from the weights, or from both (BiFP, Fig. 7).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.types import Setting, rng
from engine.surgery.ranking import median_ranks
from engine.tracks.fair_training.methods import (
    FILTERS,
    FLOPS,
    NONE,
    WEIGHTS,
    FairJob,
    FairMethod,
    Trained,
)

if TYPE_CHECKING:
    from engine.tracks.fair_training.trainer import Trainer


# What the methods share: how filters and weights are scored, and how stages of a training follow
# each other.


SHARPNESS = Setting(
    "sharpness",
    "number",
    1.0,
    "k of the surrogate's logistic(k margin); 1: the probability of the true class.",
    0.1,
    100.0,
    label="Sharpness of the surrogate",
)


def trainer_of(method: FairMethod, job: FairJob) -> Any:
    """A trainer whose mask is over the method's units."""
    from engine.tracks.fair_training.masked import (
        masked_filters_of,
        masked_weights_of,
        unmasked,
    )
    from engine.tracks.fair_training.trainer import Trainer

    model = job.classifier.model
    masked = {
        FILTERS: lambda: masked_filters_of(model, job.graph),
        WEIGHTS: lambda: masked_weights_of(model),
        NONE: lambda: unmasked(model),
    }[method.units]()
    declared = {item.name for item in method.settings}
    sharpness = method.setting(job, "sharpness") if "sharpness" in declared else 1.0
    return Trainer(job, masked, sharpness, by_flops(method, job))


def by_flops(method: FairMethod, job: FairJob) -> bool:
    """Whether the sparsity is the share of FLOPs that is cut."""
    return method.units == FILTERS and job.equal == FLOPS


def prune(
    method: FairMethod, job: FairJob, trainer: Any, scores: np.ndarray, sparsity: float
) -> None:
    """From now on only the units with the best scores [units] act.

    As many as the sparsity says, as its FLOPs have room for, or as another method found widths.

    Filters are cut for real.
    """
    from engine.tracks.fair_training.masked import FlopMask, kept_of

    if method.widths_of:
        trainer.cut(*within_widths(job, scores))
    elif by_flops(method, job):
        trainer.cut(FlopMask(job.graph, 1.0 - sparsity).best(scores), scores)
    else:
        trainer.keep_best(scores, kept_of(trainer.masked.total, sparsity))
    if method.units == FILTERS:
        trainer.make_small()


def within_widths(job: FairJob, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best of each group by their ranks, scores [filters] in (0, 1], as many as the job's
    widths say.

    Returns keep [filters] bool, and scores [filters] among which those that stay are the highest.
    """
    full = np.array([group.width for group in job.graph.groups])[job.graph.group_of]
    assert job.widths is not None, "this method has no widths of its own"
    keep = np.round(scores * full) > full - job.widths[job.graph.group_of]
    return keep, (scores + keep) / 2


def finished(method: FairMethod, trainer: Any, sparsity: float) -> Trained:
    """The result of a finished training."""
    found = trainer.result(sparsity, zeros=method.units == WEIGHTS)
    trainer.done()
    return found


def geometric_median(job: FairJob) -> np.ndarray:
    """FPGM: distance of each filter from the others of its layer, as ranks within the layer,
    [filters]."""
    return median_ranks(job.classifier.model, job.graph)


def by_chance(job: FairJob) -> np.ndarray:
    """Ranks drawn at random within each layer, [filters]: every layer loses the same share, as with
    FPGM."""
    from engine.surgery.ranking import shares_within

    draw = [job.draw] if job.draw else []  # the first is that of methods that draw once
    return shares_within(job.graph, rng("random filters", job.seed, *draw).random(job.graph.total))


def magnitudes(trainer: Any) -> np.ndarray:
    """|theta| of each masked weight, [weights]."""
    return np.sqrt(trainer.masked.flat().double().cpu().numpy())


def sensitivity(job: FairJob, trainer: Any, batches: int) -> np.ndarray:
    """SNIP (Lee et al. 2019): |theta dL/dtheta| of each weight, the gradient summed over some
    batches; [weights].

    The images it reads and the time it takes are part of what the trainer spends.
    """
    import torch

    start = time.perf_counter()

    masked, model = trainer.masked, job.classifier.model
    model.requires_grad_(True).eval()  # batch norm as trained: scoring must not move its statistics
    sums = {part.name: torch.zeros_like(model.get_parameter(part.name)) for part in masked.parts}
    for _, batch in zip(range(batches), job.batches.forever(), strict=False):
        job.check()
        logits, _ = masked.forward(batch.inputs, None)
        loss = job.targets.loss(batch.rows, logits)
        found = torch.autograd.grad(loss, [model.get_parameter(name) for name in sums])
        for name, gradient in zip(sums, found, strict=True):
            sums[name] += gradient
        trainer.spent["examples"] += len(batch.rows)
    each = {
        name: (value * model.get_parameter(name).detach()).abs() for name, value in sums.items()
    }
    scores = masked.sums(each).double().cpu().numpy()
    trainer.spent["seconds"] += time.perf_counter() - start
    return scores


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


LEARNING = ("inner", "rho", "settle", "own", "ridge")
"""Settings that are called as in `MaskLearning`."""


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
        from engine.tracks.fair_training.masked import FlopMask, kept_of
        from engine.tracks.fair_training.trainer import MaskLearning

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
            rate=self.setting(job, "mask_rate"),
            form=self.setting(job, "implicit"),
            flops=flops,
            plain=self.setting(job, "update") == "plain",
            **{name: self.setting(job, name) for name in LEARNING},
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

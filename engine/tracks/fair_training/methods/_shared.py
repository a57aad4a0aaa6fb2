"""What the methods share: how filters and weights are scored, and how stages of a training follow
each other."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from engine.core.ids import rng
from engine.core.types import Setting
from engine.surgery.ranking import median_ranks
from engine.tracks.fair_training.methods.base import (
    FILTERS,
    FLOPS,
    NONE,
    WEIGHTS,
    FairJob,
    FairMethod,
    Trained,
)

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
    from engine.tracks.fair_training.training.masked import (
        masked_filters_of,
        masked_weights_of,
        unmasked,
    )
    from engine.tracks.fair_training.training.trainer import Trainer

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
    from engine.tracks.fair_training.training.mask_optimizer import FlopMask
    from engine.tracks.fair_training.training.masked import kept_of

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

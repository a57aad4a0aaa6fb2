"""Models between trained ones: weighted means of their parameters, in the coordinates of the whole
model.

A trained model is z = m * theta: parameters of cut filters are zero as their gates make them, all
others as trained. Batch norm's statistics belong to no point but the trained ones, so they are
recomputed at every other one.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from engine.core.seeds import rng
from engine.store.array_table import within
from engine.surgery.filters.gates import gated
from engine.surgery.filters.weights import with_weights
from engine.tracks.fair_training.context import FairContext, FairShard, Look
from engine.tracks.fair_training.measurements._work import some_test_rows, trained_shard
from engine.tracks.fair_training.training.masked import Masked, masked_filters_of

RECOMPUTED_ON = 512
"""Training images on which batch norm's statistics are recomputed, at most."""
BATCH = 128


@dataclass(eq=False)
class Between:
    """Measures mixtures of some trainings' models. `points`: per training, its parameters,
    statistics and mask."""

    context: FairContext
    points: Sequence[dict[str, Tensor]]
    masked: Masked

    @classmethod
    def of(cls, context: FairContext, shards: Sequence[FairShard]) -> Between:
        """What lies between the models of some trainings that cut filters."""
        masked = masked_filters_of(copy.deepcopy(context.dense.model), context.graph)
        return cls(context, [_point(context, masked, shard) for shard in shards], masked)

    def __post_init__(self) -> None:
        context, rows = self.context, some_test_rows(self.context)
        few = rng("recompute", len(context.tuned)).permutation(context.tuned)[:RECOMPUTED_ON]
        self._test, self._train = context.images.read(rows), context.images.read(np.sort(few))
        labels = context.images.table["label"].to_numpy(dtype=np.int64)[rows]
        self._look = Look(labels, context.codes[rows], len(context.groups), context.before(rows))

    def flat(self, place: int) -> np.ndarray:
        """All parameters of one of the models, float64 [parameters]."""
        point = self.points[place]
        return np.concatenate(
            [
                point[name].double().numpy().ravel()
                for name, _ in self.masked.model.named_parameters()
            ]
        )

    def at(self, shares: Sequence[float], recomputed: bool = True) -> dict[str, float]:
        """loss (nats), accuracy and gap on test images, of the sum of the models by these shares,
        which add up to 1."""
        model = self.masked.model
        state = model.state_dict()
        with torch.no_grad():
            for name, first in self.points[0].items():
                parts = (
                    share * point[name] for share, point in zip(shares, self.points, strict=True)
                )
                mixed = sum(parts, torch.zeros_like(first))
                if name == GATES:
                    gates = mixed.to(self.masked.device)
                else:
                    mixed = mixed.clamp(min=0.0) if name.endswith("running_var") else mixed
                    state[name].copy_(mixed)
            with self._gating(gates):
                if recomputed:
                    recompute(model, self._batches(self._train))
                model.eval()
                answers = [
                    torch.softmax(model(images).float(), dim=-1).cpu()
                    for images in self._batches(self._test)
                ]
        found = self._look.of(torch.cat(answers).numpy())
        return {"loss": found["val_loss"], "accuracy": found["accuracy"], "gap": found["gap"]}

    def _batches(self, pixels: np.ndarray) -> Iterator[Tensor]:
        """Prepared images [batch, channels, height, width] of pixels [images, height, width,
        channels] uint8."""
        for start in range(0, len(pixels), BATCH):
            self.context.hooks.check()
            yield self.context.dense.prepared(pixels[start : start + BATCH])

    def _gating(self, gates: Tensor) -> AbstractContextManager[None]:
        """Channels that pass a module without parameters are gated by the same mixture of the
        masks, gates [units]."""
        bare = self.masked.bare
        return nullcontext() if bare is None else gated(self.masked.model, bare, gates)


GATES = "gates"


def _point(context: FairContext, masked: Masked, shard: FairShard) -> dict[str, Tensor]:
    """Parameters with the mask multiplied in, statistics, and the mask [units], of the model that a
    training ended in.

    By name in the model's own shapes; all floating, on the CPU.
    """
    arrays, _ = context.fetch_arrays(trained_shard(shard))
    model = with_weights(context.dense, within(arrays, "weights/")).model
    mask = torch.as_tensor(arrays["keep"], dtype=torch.float32)
    state = {
        name: value.cpu().clone()
        for name, value in model.state_dict().items()
        if value.is_floating_point()
    }
    for part in masked.parts:
        units = None if part.units is None else part.units.cpu()
        state[part.name] *= type(part)(part.name, part.start, units).spread(mask, state[part.name])
    return {**state, GATES: mask}


def recompute(model: nn.Module, batches: Iterator[Tensor]) -> None:
    """Batch norm's statistics from scratch, as torch.optim.swa_utils.update_bn does; all else stays
    in eval mode.

    batches: prepared images, [batch, channels, height, width] each.
    """
    model.eval()
    norms = [
        module
        for module in model.modules()
        if isinstance(module, nn.BatchNorm2d) and module.track_running_stats
    ]
    if not norms:
        return
    momenta = [module.momentum for module in norms]
    for module in norms:
        module.reset_running_stats()
        module.momentum = None  # the mean over all batches
        module.train()
    for images in batches:
        if len(images) > 1:
            model(images)
    for module, momentum in zip(norms, momenta, strict=True):
        module.momentum = momentum
    model.eval()

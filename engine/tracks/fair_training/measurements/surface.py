"""The loss on the plane through BiFP and two of its ablations (Fig. 8), batch norm recomputed at
every point."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from engine.classifiers.audit import EachAlone
from engine.core.ids import rng
from engine.store.tables import within
from engine.surgery.filters.graph import gated, with_weights
from engine.tracks.fair_training.context import CORNERS, FairContext, FairShard, Look
from engine.tracks.fair_training.measurements.trained import SOME, some_test_rows, trained_shard
from engine.tracks.fair_training.training.masked import Masked, masked_filters_of

SIDE = 11
MARGIN = 0.2
"""How far the grid reaches beyond the three points, as a share of their extent."""
FLAT = 1e-6
"""Share of the first distance below which the three points lie on a line."""


class Surface(EachAlone):
    """Rows: method ("" for a point of the grid), x, y (distances in parameter space), loss,
    accuracy, gap.

    No rows where the three models lie on one line. The shard's method is the first of CORNERS.
    """

    name = "surface"

    def parts(self, context: FairContext, shard: FairShard) -> dict[str, Any]:
        return {
            "side": SIDE,
            "margin": MARGIN,
            "images": [SOME, RECOMPUTED_ON],
            **trainings(context, shard, CORNERS),
        }

    def needs(self, context: FairContext, shard: FairShard) -> list[FairShard]:
        return [trained_shard(shard, name) for name in CORNERS]

    def table(self, context: FairContext, shard: FairShard) -> pd.DataFrame:
        between = Between.of(context, self.needs(context, shard))
        plane = Plane.through(*(between.flat(place) for place in range(3)))
        columns = ["method", "x", "y", "loss", "accuracy", "gap"]
        if plane is None:
            return pd.DataFrame(columns=columns)
        places = [(name, *corner) for name, corner in zip(CORNERS, plane.corners, strict=True)]
        places += [("", x, y) for x, y in plane.grid()]
        rows = []
        for done, (name, x, y) in enumerate(places, start=1):
            rows.append({"method": name, "x": x, "y": y, **between.at(plane.shares(x, y))})
            context.inside(done / len(places))
        return pd.DataFrame(rows)[columns]

    def size(self, context: FairContext, shard: FairShard) -> float:
        return float((SIDE**2 + 3) * (SOME + RECOMPUTED_ON))


class Plane:
    """Coordinates on the plane through three points: the first is (0, 0), the second (width, 0),
    the third anywhere."""

    def __init__(self, width: float, along: float, height: float) -> None:
        self.width, self.along, self.height = width, along, height

    @classmethod
    def through(cls, origin: np.ndarray, second: np.ndarray, third: np.ndarray) -> Plane | None:
        """The plane through three points [parameters], by Gram and Schmidt; None where they lie on
        a line."""
        one, other = second - origin, third - origin
        width = float(np.linalg.norm(one))
        if width == 0.0:
            return None
        along = float(other @ one) / width
        height = float(np.linalg.norm(other - along * one / width))
        return cls(width, along, height) if height > FLAT * width else None

    @property
    def corners(self) -> tuple[tuple[float, float], ...]:
        return (0.0, 0.0), (self.width, 0.0), (self.along, self.height)

    def shares(self, x: float, y: float) -> tuple[float, float, float]:
        """How much of each of the three points a point of the plane is."""
        third = y / self.height
        second = (x - third * self.along) / self.width
        return 1.0 - second - third, second, third

    def grid(self) -> list[tuple[float, float]]:
        """SIDE x SIDE points around the three."""
        ends = np.array(self.corners)
        least, most = ends.min(axis=0), ends.max(axis=0)
        spare = MARGIN * (most - least)
        xs, ys = (
            np.linspace(least[axis] - spare[axis], most[axis] + spare[axis], SIDE)
            for axis in range(2)
        )
        return [(float(x), float(y)) for y in ys for x in xs]


def trainings(context: FairContext, shard: FairShard, methods: Sequence[str]) -> dict[str, Any]:
    """What the trainings of some methods depend on, for the key of what is measured between
    them."""
    kind, shards = context.kind("trained"), [trained_shard(shard, name) for name in methods]
    return {"trained": [[kind.version, one.own, kind.parts(context, one)] for one in shards]}


# Models between trained ones: weighted means of their parameters, in the coordinates of the
# whole model.
#
# A trained model is z = m * theta: parameters of cut filters are zero as their gates make them, all
# others as trained. Batch norm's statistics belong to no point but the trained ones, so they are
# recomputed at every other one.


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


# The loss along the straight line from BiFP to another of its variants, with batch norm
# recomputed and without.


STEPS = 21


class Path(EachAlone):
    """Rows: t (0: BiFP, 1: the shard's method), loss, accuracy, gap, loss_without_recalibration.

    The shard's strength is BiFP's λ, also where its method has no use for one.
    """

    name = "path"

    def parts(self, context: FairContext, shard: FairShard) -> dict[str, Any]:
        return {
            "steps": STEPS,
            "images": [SOME, RECOMPUTED_ON],
            **trainings(context, shard, (CORNERS[0], shard.method)),
        }

    def needs(self, context: FairContext, shard: FairShard) -> list[FairShard]:
        return [trained_shard(shard, name) for name in (CORNERS[0], shard.method)]

    def table(self, context: FairContext, shard: FairShard) -> pd.DataFrame:
        between, rows = Between.of(context, self.needs(context, shard)), []
        for t in np.linspace(0.0, 1.0, STEPS):
            kept = between.at((1.0 - t, t), recomputed=False)["loss"]
            rows.append(
                {"t": float(t), **between.at((1.0 - t, t)), "loss_without_recalibration": kept}
            )
            context.inside((len(rows)) / STEPS)
        return pd.DataFrame(rows)

    def size(self, context: FairContext, shard: FairShard) -> float:
        return float(STEPS * (2 * SOME + RECOMPUTED_ON))

"""One training: cut as its method says, proved to be the mask, and asked about every test image."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.audit.measurements import Measurement
from engine.classifiers.audit import EachAlone
from engine.classifiers.images.context import TEST, ImageShard
from engine.classifiers.images.dense import (
    DenseCost,
    answers_of,
    cut_and_proved,
    settings_of,
    stepper,
)
from engine.core.errors import MaskError
from engine.core.types import Values, digest_of, rng
from engine.models.load_image_classifier import Classifier
from engine.store.runs import curve_arrays, pack, within
from engine.surgery.filters.graph import cut_filters, filter_graph, gated, with_weights
from engine.surgery.filters.reading import COUNTED
from engine.tracks.fair_training.context import CORNERS, FairContext, FairShard, Look
from engine.tracks.fair_training.masked import Masked, masked_filters_of
from engine.tracks.fair_training.methods import (
    ACCURACY,
    FILTERS,
    RECIPE,
    UNITS,
    FairJob,
    FairMethod,
    Trained,
    fair_method,
)
from engine.tracks.fair_training.trainer import STATE
from engine.training.fit import Batches, probabilities
from engine.training.losses import Targets

# What the measurements share: a training's job, its shard, the model that came of it.


SOME = 1000
"""Test images on which surfaces and paths are measured, at most."""


def trained_shard(shard: FairShard, method: str | None = None) -> FairShard:
    """The training a measurement is about, or its counterpart with another method; λ only where
    that uses it."""
    name = method or shard.method
    draw = shard.draw if name == shard.method else 0
    strength = shard.strength if fair_method(name).fair else 0.0
    return FairShard("trained", name, shard.sparsity, strength, shard.seed, draw)


def widths_for(context: FairContext, shard: FairShard) -> np.ndarray | None:
    """How many filters of each group stay, [groups] int, where another method's training says
    that."""
    other = fair_method(shard.method).widths_of
    if not other:
        return None
    keep = context.without_weights(trained_shard(shard, other))[0]["keep"]
    return np.bincount(context.graph.group_of[keep], minlength=len(context.graph.groups))


def job_of(
    context: FairContext,
    method: FairMethod,
    shard: FairShard,
    sparsities: tuple[float, ...],
    key: str,
) -> FairJob:
    """One training; `key` names it where its unfinished phases are kept."""
    settings, seed = context.settings, context.seed("fair", shard.seed)
    recipe, device = settings.recipe, context.start.device
    own = replace(context.dense, model=copy.deepcopy(context.dense.model))
    labels = torch.as_tensor(
        context.images.table["label"].to_numpy(dtype=np.int64)[context.tuned], device=device
    )
    hot = functional.one_hot(labels, len(context.start.classes)).float()
    said = context.describe(
        replace(shard, sparsity=0.0) if method.one_descent else shard
    )  # a descent serves them all
    return FairJob(
        own,
        context.graph,
        Batches(
            context.tuned,
            context.images.read,
            own.prepared,
            recipe.batch,
            seed,
            recipe.mirror and context.mirror,
        ),
        Targets(hot, torch.ones(len(labels), device=device)),
        context.codes[context.tuned],
        context.before(context.tuned),
        sparsities,
        shard.strength,
        settings.iterations,
        recipe,
        seed,
        settings.tolerance,
        settings.notion,
        settings.check_every,
        settings.equal,
        shard.draw,
        widths_for(context, shard),
        settings_of(context, method),
        look=lambda model: looked(context, model),
        check=context.hooks.check,
        step=_stepper(context, method, sparsities),
        point=lambda row: context.hooks.point({"shard": said, **row}),
        keep=lambda phase: context.partial(digest_of([key, phase, STATE])),
    )


def _stepper(
    context: FairContext, method: FairMethod, sparsities: Sequence[float]
) -> Callable[[int, int], None]:
    """How far a training is: each phase reports its own steps alone, so they are summed up here."""
    tell, seen = stepper(context), {"before": 0, "last": 0}
    expected = max(1, round(method.rounds_of_all * context.settings.iterations * len(sparsities)))

    def step(done: int, total: int) -> None:
        if done <= seen["last"]:
            seen["before"] += seen["last"]
        seen["last"] = done
        tell(min(seen["before"] + done, expected), expected)

    return step


def looked(context: FairContext, model: nn.Module) -> dict[str, float]:
    """accuracy, gap, degradation and val_loss of a model on the validation images that are looked
    at."""
    was = model.training
    model.eval()
    found = probabilities(
        model,
        context.looked,
        context.images.read,
        context.dense.prepared,
        context.settings.batch,
        context.hooks.check,
    )
    model.train(was)
    return context.look.of(found.numpy())


def model_of(context: FairContext, shard: FairShard) -> Classifier:
    """The model that came of a training: cut for real, or with its cut weights at zero."""
    arrays, _ = context.fetch_arrays(trained_shard(shard))
    whole = with_weights(context.dense, within(arrays, "weights/"))
    if fair_method(shard.method).units != FILTERS:
        return whole
    return cut_filters(whole, context.graph.mask(arrays["keep"]))[0]


def must_be_zero(
    weights: Mapping[str, torch.Tensor], model: nn.Module, keep: np.ndarray, what: str
) -> int:
    """How many parameters are zero. MaskError unless all weights that the mask cuts are.

    keep [prunable weights] bool, in the order of the modules; weights: the state dict by name.
    """
    flat = np.concatenate(
        [
            weights[f"{name}.weight"].numpy().ravel()
            for name, part in model.named_modules()
            if isinstance(part, COUNTED)
        ]
    )
    if len(flat) != len(keep) or flat[~keep].any():
        raise MaskError(
            f"{what}: the mask of {len(keep)} weights is not what is zero. Nothing was kept of it."
        )
    return zeros_of(weights, model)


def zeros_of(weights: Values, model: nn.Module) -> int:
    """How many parameters (batch norm's statistics are none) are exactly zero."""
    return sum(int((np.asarray(weights[name]) == 0).sum()) for name, _ in model.named_parameters())


def some_test_rows(context: FairContext) -> np.ndarray:
    """Places in the table of at most SOME test images, [images] int: a fixed draw."""
    rows = context.rows(TEST)
    return (
        rows if len(rows) <= SOME else np.sort(rng("surface", len(rows)).permutation(rows)[:SOME])
    )


class TrainedModel(Measurement):
    """Array table: weights/… in full shapes, keep and scores [units], curve/…, probabilities [test
    images, classes] of the cut model. Plainly: history, flops, parameters, n_zero, spent,
    agreement of masked and cut.

    All sparsities of a descent are one training.
    """

    name = "trained"
    pace = 0.48

    def parts(self, context: FairContext, shard: FairShard) -> dict[str, Any]:
        method, settings = fair_method(shard.method), context.settings
        recipe = {
            name: value for name, value in settings.recipe.to_dict().items() if name in RECIPE
        }
        return {
            "method": method.version,
            "settings": settings_of(context, method),
            "recipe": {**recipe, "mirror": settings.recipe.mirror and context.mirror},
            "iterations": settings.iterations,
            "check_every": settings.check_every,  # the curve is part of what is kept
            "groups": [settings.axis, list(context.groups)],  # their gap is in the curve
            # the surrogate is in the curve of every method; a plain one's usual form was there
            # before it had a key
            "fair": (
                [settings.tolerance, settings.notion]
                if method.fair or not (settings.tolerance == 0.0 and settings.notion == ACCURACY)
                else []
            ),
            "tune_on": settings.tune_on,
            "sparsities": list(settings.sparsities[method.name]) if method.one_descent else [],
            **(
                {"equal": settings.equal}
                if method.units == FILTERS and settings.equal != UNITS
                else {}
            ),
            **({"widths": self._of_widths(context, shard)} if method.widths_of else {}),
        }

    def _of_widths(self, context: FairContext, shard: FairShard) -> list[Any]:
        other = trained_shard(shard, fair_method(shard.method).widths_of)
        return [other.own, self.parts(context, other)]

    def together(self, context: FairContext, shard: FairShard) -> Hashable:
        return (
            (shard.method, shard.strength, shard.seed)
            if fair_method(shard.method).one_descent
            else shard
        )

    def needs(self, context: FairContext, shard: FairShard) -> list[FairShard | ImageShard]:
        other = fair_method(shard.method).widths_of
        of_widths = [trained_shard(shard, other)] if other else []
        return [ImageShard("original"), ImageShard("dense_answers"), *of_widths]

    def compute(self, context: FairContext, shards: Sequence[FairShard]) -> list[pd.DataFrame]:
        first, method = shards[0], fair_method(shards[0].method)
        # a descent depends on all its targets, also where only some are missing
        wanted = (
            context.settings.sparsities[method.name] if method.one_descent else (first.sparsity,)
        )
        key = context.key(replace(first, sparsity=max(wanted)))
        job = job_of(context, method, first, tuple(sorted(wanted)), key)
        found = {one.sparsity: one for one in method.train(job)}
        return [self._packed(context, shard, found[shard.sparsity]) for shard in shards]

    def _packed(self, context: FairContext, shard: FairShard, one: Trained) -> pd.DataFrame:
        weights = {name: value.detach().cpu().numpy() for name, value in one.weights.items()}
        keep = np.asarray(one.keep, dtype=bool)
        small = with_weights(context.dense, weights)
        more: dict[str, Any] = {"history": [], "max_logit_difference": 0.0, "agrees": True}
        if fair_method(shard.method).units == FILTERS:
            mask = context.graph.mask(keep)
            small, history, agreement = cut_and_proved(
                context, small, mask, context.describe(shard)
            )
            n_zero = zeros_of(
                {name: value.cpu().numpy() for name, value in small.model.state_dict().items()},
                small.model,
            )
            more = {
                "history": history,
                "max_logit_difference": agreement.max_logit_difference,
                "agrees": agreement.holds,
            }
        elif len(keep):
            n_zero = must_be_zero(one.weights, small.model, keep, context.describe(shard))
        else:
            n_zero = zeros_of(weights, small.model)
        arrays = {f"weights/{name}": value for name, value in weights.items()}
        arrays |= {
            "keep": keep,
            "scores": np.asarray(one.scores, dtype=np.float32),
            **curve_arrays(one.curve),
        }
        arrays["probabilities"] = answers_of(context, small, TEST)
        more |= {
            "flops": filter_graph(small).flops(),
            "parameters": small.n_parameters,
            "n_zero": n_zero,
        }
        return pack(
            arrays, {**more, "spent": {name: float(value) for name, value in one.spent.items()}}
        )

    def size(self, context: FairContext, shard: FairShard) -> float:
        settings, method = context.settings, fair_method(shard.method)
        own = settings_of(context, method)
        looks = settings.iterations / settings.check_every * len(context.looked)
        steps = 3.0 * settings.iterations * settings.recipe.batch
        masks = (
            (1.0 - own["settle"]) / own["inner"] if "inner" in own else 0.0
        )  # a learned mask has its own batches
        return (steps * (1.0 + masks) + looks) * method.rounds_of_all + len(context.rows(TEST))


# What a model costs that was trained and cut here: FLOPs, parameters, bytes, and its latency
# beside the dense one.


class FairCost(DenseCost):
    """One row, with the columns of an image audit's `cost`."""

    name = "fair_cost"
    version = 1

    def parts(self, context: FairContext, shard: Any) -> dict[str, Any]:
        trained = context.kind("trained")
        own = [trained.version, trained.parts(context, trained_shard(shard))]
        return {**super().parts(context, ImageShard("cost")), "trained": own}

    def needs(self, context: FairContext, shard: Any) -> list[FairShard]:
        return [trained_shard(shard)]

    def model_of(self, context: FairContext, shard: Any) -> Classifier:
        return model_of(context, shard)


# The loss on the plane through BiFP and two of its ablations (Fig. 8), batch norm recomputed at
# every point.


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

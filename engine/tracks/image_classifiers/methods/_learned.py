"""AutoBot: learn one bottleneck per filter under a target of FLOPs, the weights unchanged (Castells
and Yeom 2021)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from engine.core.errors import PruneAuditError
from engine.models.load_image_classifier import Classifier
from engine.surgery.filters.graph import FilterGraph, gated
from engine.surgery.ranking import Met, meet_target
from engine.training.fit import Batch, Batches, mixed
from engine.training.losses import Targets

START = math.log(9.0)
"""b of a gate of 0.9."""
HARDNESS = 1e-3
LAST = 0.4
"""Share of the iterations, at their end, among which the best state is kept."""


@dataclass(frozen=True)
class Bottlenecks:
    """Gates of the best state [units] in (0, 1), and one row per iteration: step, loss,
    cross_entropy, flops."""

    gates: np.ndarray
    curve: list[dict[str, float]]


def learn_bottlenecks(
    classifier: Classifier,
    graph: FilterGraph,
    batches: Batches,
    targets: Targets,
    goal: float,
    rate: float,
    beta: float,
    iterations: int,
    check: Callable[[], None] = lambda: None,
    step: Callable[[int, int], None] = lambda done, total: None,
) -> Bottlenecks:
    """AutoBot (Castells and Yeom 2021): min over b of L = CE + β g(F) + 10⁻³ h, with Adam on b
    only.

    gates = σ(b), b starts at 2.1972 (gate 0.9). CE: against `targets`. F: the differentiable FLOPs
    of one image under the gates. g: `distance` of F from the goal; h: `softness` of the gates.
    rate: of Adam; beta: β; goal: FLOPs of one image to aim at. The classifier stays in eval mode
    and unchanged. PruneAuditError for NaN.
    """
    device, model = classifier.device, classifier.model
    model.eval().requires_grad_(False)
    logits_of_gates = torch.full((graph.total,), START, device=device, requires_grad=True)
    optimizer = torch.optim.Adam([logits_of_gates], lr=rate)
    smooth, everything = graph.tensors(device), graph.flops()
    curve: list[dict[str, float]] = []
    best, best_loss = None, math.inf
    with gated(model, graph, lambda: torch.sigmoid(logits_of_gates)):
        for number, batch in zip(range(iterations), batches.forever(), strict=False):
            check()
            optimizer.zero_grad(set_to_none=True)
            with mixed(device):
                logits = model(batch.inputs)
            cross = targets.loss(batch.rows, logits)
            gates = torch.sigmoid(logits_of_gates)
            flops = smooth(gates)
            loss = cross + beta * distance(flops, goal, everything) + HARDNESS * softness(gates)
            value = _finite(loss, number)
            if number >= (1 - LAST) * iterations and value < best_loss:
                best, best_loss = gates.detach().clone(), value
            loss.backward()
            optimizer.step()
            parts = {"cross_entropy": float(cross.detach()), "flops": float(flops.detach())}
            curve.append({"step": number, "loss": value, **parts})
            step(number + 1, iterations)
    found = torch.sigmoid(logits_of_gates).detach() if best is None else best
    return Bottlenecks(found.double().cpu().numpy(), curve)


def distance(flops: Tensor, goal: float, everything: float) -> Tensor:
    """g = (F − T) / (F_all − T) where F > T, else 1 − F / T.

    It is 1 for the whole model, 0 at the goal T, 1 for nothing.

    flops: F, FLOPs of one image, a scalar with its gradient; goal: T, everything: F_all, in the
    same unit.
    """
    if float(flops.detach()) > goal:
        return (flops - goal) / max(everything - goal, 1e-9)
    return 1 - flops / goal


def softness(gates: Tensor) -> Tensor:
    """h = mean |gate − round(gate)|: the mean distance of the gates [units] from 0 or 1, a
    scalar."""
    return (gates - gates.round()).abs().mean()


def _finite(loss: Tensor, number: int) -> float:
    """The loss, a scalar, as a number. PruneAuditError unless it is finite; number: of the
    iteration, from 0."""
    value = float(loss.detach())
    if not math.isfinite(value):
        raise PruneAuditError(
            f"AutoBot's loss became {value} at iteration {number + 1}. Lower its learning rate."
        )
    return value


# Taylor pruning: train, and every few iterations cut the filters whose removal changes the loss
# least to first order.
#
# The gates that mask what is cut already are the ones whose gradient is read, so importance costs
# no second pass.


@dataclass(frozen=True)
class Stop:
    """Where a target was reached: which filters stay, the importance of all [units], the weights at
    that moment."""

    goal: float
    met: Met
    importance: np.ndarray
    weights: dict[str, Tensor]
    curve: list[dict[str, float]]


@dataclass
class TaylorPruning:
    """One descent from the whole model through all goals, largest first. `classifier.model` is
    trained in place.

    every: iterations between two cuts; count: filters per cut; rate, momentum: of SGD. last_only:
    importance is read off the last batch before a cut alone, not all since the last one. normalise:
    divide by the L2 norm over each layer before ranking, as Molchanov et al. do.
    """

    classifier: Classifier
    graph: FilterGraph
    batches: Batches
    targets: Targets
    rate: float
    every: int
    count: int
    normalise: bool = False
    momentum: float = 0.9
    last_only: bool = False
    check: Callable[[], None] = lambda: None
    step: Callable[[int, int], None] = lambda done, total: None
    curve: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.alive = np.ones(self.graph.total, dtype=bool)
        self.importance = np.zeros(self.graph.total)
        self._gates = torch.ones(self.graph.total)
        self._sum = torch.zeros(self.graph.total, dtype=torch.float64)
        self._seen = 0

    def run(self, goals: Sequence[float]) -> Iterator[Stop]:
        """goals in FLOPs of one image, falling."""
        model = self.classifier.model
        model.requires_grad_(True).train()
        optimizer = torch.optim.SGD(model.parameters(), lr=self.rate, momentum=self.momentum)
        stream = self.batches.forever()
        torch.manual_seed(self.batches.seed)
        with gated(model, self.graph, lambda: self._gates):
            for goal in goals:
                met = self._descend(optimizer, stream, goal)
                self.alive = met.keep
                weights = {
                    name: value.detach().cpu().clone() for name, value in model.state_dict().items()
                }
                yield Stop(goal, met, self.importance.copy(), weights, copy.copy(self.curve))
        model.eval().requires_grad_(False)

    def _descend(
        self, optimizer: torch.optim.Optimizer, stream: Iterator[Batch], goal: float
    ) -> Met:
        """Train and cut until the next cut would pass the goal, then cut exactly to it."""
        while True:
            for _ in range(self.every):
                self._train(optimizer, next(stream))
            self._settle_importance()
            least = self._least()
            left = self._without(least)
            if not len(least) or self.graph.flops(left) <= goal:
                return meet_target(self.graph, self.importance, goal, self.alive)
            self.alive = left
            gone, total = self.graph.flops() - self.graph.flops(left), self.graph.flops() - goal
            self.step(int(1000 * gone / total), 1000)

    def _train(self, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
        """One step of training, which also gives every image's gradient of every gate."""
        self.check()
        device = batch.inputs.device
        mask = torch.as_tensor(self.alive, dtype=torch.float32, device=device)
        self._gates = mask.expand(len(batch.rows), -1).clone().requires_grad_(True)
        optimizer.zero_grad(set_to_none=True)
        with mixed(device):
            logits = self.classifier.model(batch.inputs)
        each = self.targets.each(batch.rows, logits)
        loss = each.mean()
        if not math.isfinite(value := float(loss.detach())):
            raise PruneAuditError(
                f"The loss became {value} at iteration {len(self.curve) + 1} of Taylor pruning."
                " Lower its rate."
            )
        loss.backward()
        optimizer.step()
        if self.last_only:
            self._sum.zero_()
            self._seen = 0
        slopes = self._gates.grad
        assert slopes is not None, "every pass goes through the gates"
        # the loss is a mean over the batch: times its size, each image's own derivative comes out
        self._sum += slopes.abs().sum(dim=0).double().cpu() * len(batch.rows)
        self._seen += len(batch.rows)
        self.curve.append(
            {"step": len(self.curve), "loss": value, "flops": self.graph.flops(self.alive)}
        )

    def _settle_importance(self) -> None:
        """I_f = mean over images i of |Σ_p a_p ∂L_i/∂a_p| (Molchanov et al. 2016), over the images
        since the last cut.

        a_p: the activations of filter f at all places p; the sum is ∂L_i/∂gate of a gate on the
        filter. Filters that are cut together share one gate. What is cut keeps the importance it
        had.
        """
        fresh = (self._sum / max(self._seen, 1)).numpy()
        if self.normalise:
            squares = np.bincount(self.graph.group_of, (fresh * self.alive) ** 2)
            fresh = fresh / np.sqrt(np.maximum(squares, 1e-24))[self.graph.group_of]
        self.importance = np.where(self.alive, fresh, self.importance)
        self._sum.zero_()
        self._seen = 0

    def _least(self) -> np.ndarray:
        """The `count` least important living filters, [at most count] int, least first; never the
        last of a group."""
        living = np.flatnonzero(self.alive)
        order = living[np.lexsort((living, self.importance[living]))]
        left = np.bincount(self.graph.group_of[living], minlength=len(self.graph.groups))
        chosen: list[int] = []
        for unit in order:
            group = self.graph.group_of[unit]
            if left[group] > 1:
                left[group] -= 1
                chosen.append(int(unit))
            if len(chosen) == self.count:
                break
        return np.array(chosen, dtype=int)

    def _without(self, units: np.ndarray) -> np.ndarray:
        """Which filters live once these units, [cut] int, are cut too: [units] bool."""
        left = self.alive.copy()
        left[units] = False
        return left

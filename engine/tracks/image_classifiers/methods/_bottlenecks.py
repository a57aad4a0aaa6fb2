"""AutoBot: learn one bottleneck per filter under a target of FLOPs, the weights unchanged (Castells
and Yeom 2021)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.core.errors import PruneAuditError
from engine.models.load_image_classifier import Classifier
from engine.surgery.filters.gates import gated
from engine.surgery.filters.graph import FilterGraph
from engine.training.batches import Batches
from engine.training.fit import mixed
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
    """g = (F − T) / (F_all − T) where F > T, else 1 − F / T: 1 for the whole model, 0 at the goal
    T, 1 for nothing.

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

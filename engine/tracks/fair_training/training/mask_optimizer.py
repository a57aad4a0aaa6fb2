"""How mask scores move: momentum, one scale for all scores, and projection on the budget.

v <- mean over units of g^2, fading.
m <- P(m - rate * momentum / sqrt(v)).
P: on {0 <= m <= 1, sum m = k}.

Adam would scale every score by its own gradient and so forget which unit matters more. All scores
whose gradient has the right sign rise alike until they meet at 1 and ties decide the mask
(docs/LOG.md). The sum is the number of units that stay, so a score can only rise where others fall.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from engine.surgery.filters.graph import FilterGraph
from engine.surgery.ranking import meet_target

FADES = 0.9, 0.99
"""Factors by which the momentum and the scale fade."""
STEPS, CLOSE = 30, 1e-7
"""Newton's steps at most, and the share by which the sum may be off at the end."""
BLOCK = 2**15
"""Scores that are worked on at a time: what torch still leaves to one core, whose threads would
wait for each other at every block. A multiple of what a processor takes at once, so no digit
depends on it."""


@dataclass(eq=False)
class MaskOptimizer:
    """`scores` [units] in [0, 1] are changed in place; `count` of the units stay. The first step is
    taken from where the scores are, on the budget or not."""

    scores: Tensor
    count: int

    def __post_init__(self) -> None:
        self.momentum, self.scale, self.steps = torch.zeros_like(self.scores), 0.0, 0

    def step(
        self, gradient: Tensor, rate: float, price: np.ndarray | None = None, budget: float = 0.0
    ) -> None:
        """One step against the gradient [units]; price [units]: then Σ price · m stays at the
        budget, not Σ m."""
        self.steps += 1
        square = _squared(gradient) / max(1, len(gradient))
        self.scale = FADES[1] * self.scale + (1 - FADES[1]) * square
        scale = (self.scale / (1 - FADES[1] ** self.steps)) ** 0.5 + 1e-12
        self._move(gradient, rate / (1 - FADES[0] ** self.steps) / scale)
        if price is None:
            put_on_budget(self.scores, self.count)
        else:
            self.scores.copy_(on_priced_budget(self.scores, price, budget))

    def _move(self, gradient: Tensor, rate: float) -> None:
        """Momentum and scores, block by block."""
        for momentum, new, scores in _blocks(self.momentum, gradient, self.scores):
            scores.add_(momentum.mul_(FADES[0]).add_(new, alpha=1 - FADES[0]), alpha=-rate)

    def state(self) -> dict[str, Any]:
        """Tensors and plain numbers, to go on from."""
        return {
            "scores": self.scores.clone(),
            "momentum": self.momentum.clone(),
            "scale": self.scale,
            "steps": self.steps,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.scores.copy_(state["scores"])
        self.momentum.copy_(state["momentum"])
        self.scale, self.steps = state["scale"], state["steps"]


def on_budget(scores: Tensor, count: int) -> Tensor:
    """The point nearest to scores [units] with all of them from 0 to 1 and a sum of `count`:
    clip(scores - c)."""
    found = scores.clone()
    put_on_budget(found, count)
    return found


def put_on_budget(scores: Tensor, count: int) -> None:
    """`on_budget` in place.

    The sum is piecewise linear in c, so c is found by Newton's steps, halved where one leaves the
    bracket.
    """
    least, most = scores.aminmax()
    low, high = float(least) - 1.0, float(most)
    middle = min(max(0.0, low), high)
    for _ in range(STEPS):
        whole, free = _clipped(scores, middle)
        over = whole - count
        if abs(over) <= CLOSE * count:
            break
        low, high = (middle, high) if over > 0 else (low, middle)
        middle = middle + over / free if free else (low + high) / 2
        if not low < middle < high:
            middle = (low + high) / 2
    for (part,) in _blocks(scores):
        part.sub_(middle).clamp_(0.0, 1.0)


def _clipped(scores: Tensor, middle: float) -> tuple[float, float]:
    """The sum of clip(scores - middle), added up in double precision, and how many are neither 0
    nor 1."""
    whole = free = 0.0
    narrow, wide = _rooms(scores)
    for (part,) in _blocks(scores):
        clipped = torch.sub(part, middle, out=narrow[: len(part)]).clamp_(0.0, 1.0)
        whole += float(wide[: len(part)].copy_(clipped).sum())
        free += float(
            clipped.frac_().ceil_().sum()
        )  # a block has fewer scores than single precision counts
    return whole, free


def _squared(gradient: Tensor) -> float:
    """The sum of squares, added up in double precision."""
    wide = _rooms(gradient)[1]
    return sum(
        float(wide[: len(part)].copy_(part).square_().sum()) for (part,) in _blocks(gradient)
    )


def _rooms(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Room for a block, in single and in double precision: taken once for all blocks, for fresh
    pages cost more than sums."""
    size = min(_size(tensor), max(1, len(tensor)))
    narrow, wide = (
        torch.empty(size, dtype=kind, device=tensor.device)
        for kind in (torch.float32, torch.float64)
    )
    return narrow, wide


def _size(tensor: Tensor) -> int:
    """Scores that are worked on at a time on the tensor's device."""
    return BLOCK if tensor.device.type == "cpu" else 2**24


def _blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Views of the same places of tensors [units], BLOCK of them at a time.

    A block stays in a core's cache from one operation to the next: at millions of scores memory is
    what costs."""
    return zip(*(tensor.split(_size(tensor)) for tensor in tensors), strict=True)


# A mask under a budget of FLOPs: which filters stay, and what each is charged where scores
# compete for it.
#
# A count of filters charges every filter alike, and a budget of FLOPs by what it would save: where
# a filter of an early layer costs ten of a late one, its score must be as much better to stay.


@dataclass(frozen=True, eq=False)
class FlopMask:
    """Masks over the filters of `graph` that leave `share` of its FLOPs."""

    graph: FilterGraph
    share: float

    @cached_property
    def goal(self) -> float:
        """FLOPs of one image."""
        return self.share * self.graph.flops()

    def best(self, scores: np.ndarray) -> np.ndarray:
        """The filters with the highest scores [filters] that the goal has room for, [filters]
        bool."""
        return meet_target(self.graph, scores, self.goal).keep

    def price(self, keep: np.ndarray) -> np.ndarray:
        """What each filter costs beside those that stay, keep [filters] bool: FLOPs, over their
        mean, [filters].

        ∂FLOPs/∂u of `FilterGraph.flops` at u = keep.
        """
        graph = self.graph
        into, out = (
            side @ keep + fixed
            for side, fixed in ((graph.inputs, graph.fixed_in), (graph.outputs, graph.fixed_out))
        )
        found = (graph.price * out) @ graph.inputs + (graph.price * into) @ graph.outputs
        return found / found.mean()


def on_priced_budget(scores: Tensor, price: np.ndarray, budget: float) -> Tensor:
    """The point nearest to scores [units] from 0 to 1 each, with Σ price · m = budget: clip(scores
    − c price, 0, 1).

    price [units] above 0; budget from 0 to their sum.
    """
    values = scores.double().cpu().numpy()

    def over(c: float) -> float:
        return float(price @ np.clip(values - c * price, 0.0, 1.0)) - budget

    low, high = float(((values - 1.0) / price).min()), float((values / price).max())
    c = brentq(over, low - 1e-9, high + 1e-9)
    return torch.as_tensor(
        np.clip(values - c * price, 0.0, 1.0), dtype=scores.dtype, device=scores.device
    )

"""How mask scores move: momentum, one scale for all scores, and projection on the budget.

    v <- mean over units of g^2, fading      m <- P(m - rate * momentum / sqrt(v))      P: on {0 <= m <= 1, sum m = k}

Adam would scale every score by its own gradient and so forget which unit matters more: all scores whose gradient has
the right sign rise alike until they meet at 1 and ties decide the mask (docs/LOG.md). The sum is the number of units
that stay, so a score can only rise where others fall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

FADES = 0.9, 0.99
"""Of the momentum and of the scale."""
HALVINGS = 60


@dataclass(eq=False)
class Climber:
    """`scores` [units] in [0, 1] are changed in place; `count` of the units stay. The first step is taken from where
    the scores are, on the budget or not."""

    scores: Tensor
    count: int

    def __post_init__(self) -> None:
        self.momentum, self.scale, self.steps = torch.zeros_like(self.scores), 0.0, 0

    def step(self, gradient: Tensor, rate: float) -> None:
        """One step against the gradient [units]."""
        self.steps += 1
        self.momentum = FADES[0] * self.momentum + (1 - FADES[0]) * gradient
        self.scale = FADES[1] * self.scale + (1 - FADES[1]) * float((gradient.double() ** 2).mean())
        momentum = self.momentum / (1 - FADES[0] ** self.steps)
        scale = (self.scale / (1 - FADES[1] ** self.steps)) ** 0.5
        self.scores.copy_(on_budget(self.scores - rate * momentum / (scale + 1e-12), self.count))

    def state(self) -> dict[str, Any]:
        """Tensors and plain numbers, to go on from."""
        return {"scores": self.scores.clone(), "momentum": self.momentum, "scale": self.scale, "steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.scores.copy_(state["scores"])
        self.momentum = state["momentum"].to(self.scores.device)
        self.scale, self.steps = state["scale"], state["steps"]


def on_budget(scores: Tensor, count: int) -> Tensor:
    """The nearest point with all scores in [0, 1] and a sum of `count`: clip(scores - c), c found by halving."""
    low, high = scores.min() - 1.0, scores.max()
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = (scores - middle).clamp(0.0, 1.0).sum() > count
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (scores - (low + high) / 2).clamp(0.0, 1.0)

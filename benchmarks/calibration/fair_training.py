"""BiFP's implicit gradient on a toy where it is not zero: logistic regression, masked, with data of
each level's own.

Lower level: θ*(m) = argmin l(m θ) + ρ/2 |θ|², solved by Newton. Upper level: F(m) = u(m θ*(m)).
The truth are central
differences of F, with the lower level solved anew at each end. Three worlds: other data above, and
the two ablations of BiFP on one set of data, where only one level has the gap between groups in its
loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.report import Measure
from engine.tracks.fair_training.implicit import closed_form

D = torch.float64
FEATURES, POINTS, STEP = 6, 200, 1e-4
RHOS = (0.01, 0.1, 1.0)
BAR = 1e-3
"""Relative error, of issue and paper check alike."""
Loss = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Logistic:
    """Mean cross-entropy of a logistic regression, and with strength > 0 so much of the gap between
    two groups."""

    x: Tensor
    y: Tensor
    strength: float = 0.0

    @classmethod
    def drawn(cls, seed: int, strength: float = 0.0) -> Logistic:
        """Points of this seed, from one truth for all seeds."""
        draw = torch.Generator().manual_seed(seed)
        truth = torch.randn(FEATURES, generator=torch.Generator().manual_seed(99), dtype=D)
        x = torch.randn(POINTS, FEATURES, generator=draw, dtype=D)
        noise = 0.5 * torch.randn(POINTS, generator=draw, dtype=D)
        return cls(x, (x @ truth + noise > 0).double(), strength)

    def __call__(self, z: Tensor) -> Tensor:
        logits = self.x @ z
        right, group = torch.sigmoid((2 * self.y - 1) * logits), torch.arange(POINTS) % 3 == 0
        gap = right[~group].mean() - right[group].mean()
        return functional.binary_cross_entropy_with_logits(logits, self.y) + self.strength * gap


def worlds(seed: int) -> dict[str, tuple[Loss, Loss]]:
    """(upper, lower) losses by what the two levels differ in."""
    return {
        "own data above": (Logistic.drawn(seed), Logistic.drawn(seed + 1000)),
        "no m": (Logistic.drawn(seed), Logistic.drawn(seed, 1.0)),
        "no w": (Logistic.drawn(seed, 1.0), Logistic.drawn(seed)),
    }


def solved(lower: Loss, mask: Tensor, rho: float) -> Tensor:
    """θ*(m) [features] by Newton's method."""
    theta = torch.zeros(len(mask), dtype=D)
    for _ in range(100):
        z = (mask * theta).requires_grad_(True)
        slope = mask * torch.autograd.grad(lower(z), z)[0] + rho * theta
        if slope.abs().max() < 1e-12:
            return theta
        hessian = torch.autograd.functional.hessian(lower, z.detach())
        curved = mask[:, None] * hessian * mask + rho * torch.eye(len(mask), dtype=D)
        theta = theta - torch.linalg.solve(curved, slope)
    raise RuntimeError("the lower level was not solved")


def differences(upper: Loss, lower: Loss, mask: Tensor, rho: float) -> Tensor:
    """Central differences of m -> F(m), [features]."""
    ends = (mask + sign * STEP * one for one in torch.eye(len(mask), dtype=D) for sign in (1, -1))
    found = torch.stack([upper(end * solved(lower, end, rho)) for end in ends]).view(-1, 2)
    return (found[:, 0] - found[:, 1]) / (2 * STEP)


def measures(quick: bool) -> list[Measure]:
    """The exact gradient's error; what first order alone leaves out; where the closed forms point,
    by ρ."""
    seeds, found = range(2 if quick else 20), []
    for world, rho in product(("own data above", "no m", "no w"), RHOS):
        errors, first = [], []
        cosines: dict[str, list[float]] = {"cross": [], "derived": []}
        for seed in seeds:
            upper, lower = worlds(seed)[world]
            mask = torch.rand(FEATURES, generator=torch.Generator().manual_seed(seed), dtype=D)
            theta = solved(lower, mask, rho)
            truth = differences(upper, lower, mask, rho)
            errors.append(_error(exact(upper, theta, mask, rho, lower), truth))
            above, below = (_gradient(loss, mask * theta) for loss in (upper, lower))
            first.append(_error(theta * above, truth))
            for form, values in cosines.items():
                one = closed_form(theta, above, mask, rho, form, below)
                values.append(float(functional.cosine_similarity(one, truth, dim=0)))
        name = f"{world}, ρ {rho:g}"
        found += [
            Measure(
                f"implicit gradient against finite differences, {name}",
                max(errors),
                "relative error",
                BAR,
            ),
            Measure(f"first order alone, {name}", _middle(first), "relative error, median"),
            *(
                Measure(f"closed form, {form}, {name}", _middle(values), "cosine, median")
                for form, values in cosines.items()
            ),
        ]
    return found


def _gradient(loss: Loss, z: Tensor) -> Tensor:
    leaf = z.detach().requires_grad_(True)
    return torch.autograd.grad(loss(leaf), leaf)[0]


def _error(found: Tensor, truth: Tensor) -> float:
    return float((found - truth).norm() / truth.norm())


def _middle(values: list[float]) -> float:
    return float(torch.tensor(values).median())


def exact(
    loss: Callable[[Tensor], Tensor],
    theta: Tensor,
    mask: Tensor,
    rho: float,
    lower: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """dF/dm [n] of BiFP Eq. 9 at theta = theta*(m), with the whole Hessian: for small problems, and
    to check the closed form by. loss: of the upper level; lower: what theta* minimises, None for
    the same. theta, mask: [n].
    """
    lower, z = lower or loss, (mask * theta).detach().requires_grad_(True)
    above, below = (torch.autograd.grad(one(z), z)[0] for one in (loss, lower))
    hessian = torch.autograd.functional.hessian(lower, z.detach())
    curved = mask[:, None] * hessian * mask + rho * torch.eye(len(z), dtype=z.dtype)
    pulled = torch.linalg.solve(curved, mask * above)
    return theta * above - (below * pulled + theta * (hessian @ (mask * pulled)))

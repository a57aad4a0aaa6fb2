"""The implicit gradient against finite differences of the bilevel objective, on problems that can
be solved exactly.

Lower level by Newton in float64: theta*(m) = argmin l(m * theta) + rho/2 |theta|^2.
Upper level: l(m * theta*(m)).
"""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from engine.tracks.fair_training.trainer import FORMS, closed_form, exact

D = torch.float64
FEATURES = 6


class Logistic:
    """Logistic regression of 200 random points; with strength > 0 plus a smooth gap between two
    groups of them."""

    def __init__(self, seed: int = 0, strength: float = 0.0, correlated: float = 0.0) -> None:
        draw = torch.Generator().manual_seed(seed)
        x = torch.randn(200, FEATURES, generator=draw, dtype=D)
        self.x = x + correlated * torch.randn(200, 1, generator=draw, dtype=D)
        truth = self.x @ torch.randn(FEATURES, generator=draw, dtype=D)
        self.y = (truth + 0.5 * torch.randn(200, generator=draw, dtype=D) > 0).double()
        self.group, self.strength = torch.arange(200) % 3 == 0, strength

    def __call__(self, z: Tensor) -> Tensor:
        logits = self.x @ z
        loss = functional.binary_cross_entropy_with_logits(logits, self.y)
        right = torch.sigmoid((2 * self.y - 1) * logits)
        return loss + self.strength * (right[~self.group].mean() - right[self.group].mean())


class Linear:
    """c z: no curvature, so the closed form's assumption holds."""

    c = torch.tensor([1.0, -2.0, 0.5, 3.0, -0.1, 0.7], dtype=D)

    def __call__(self, z: Tensor) -> Tensor:
        return self.c @ z


def solve(loss, mask: Tensor, rho: float) -> Tensor:
    """theta*(m) by Newton's method."""
    theta = torch.zeros(len(mask), dtype=D)
    for _ in range(100):
        z = (mask * theta).requires_grad_(True)
        value = loss(z)
        g = torch.autograd.grad(value, z)[0]
        hessian = torch.autograd.functional.hessian(loss, z.detach())
        slope = mask * g + rho * theta
        theta = theta - torch.linalg.solve(
            mask[:, None] * hessian * mask + rho * torch.eye(len(mask), dtype=D), slope
        )
        if slope.abs().max() < 1e-13:
            return theta
    raise AssertionError("the lower level was not solved")


def by_differences(loss, mask: Tensor, rho: float, step: float = 1e-4, lower=None) -> Tensor:
    """Central differences of m -> l(m * theta*(m)), solving the lower level anew for each."""
    ends = [[mask + sign * step * one for sign in (1, -1)] for one in torch.eye(len(mask), dtype=D)]
    up, down = zip(
        *([loss(end * solve(lower or loss, end, rho)) for end in pair] for pair in ends),
        strict=True,
    )
    return (torch.stack(up) - torch.stack(down)) / (2 * step)


def gradient(loss, z: Tensor) -> Tensor:
    leaf = z.detach().requires_grad_(True)
    return torch.autograd.grad(loss(leaf), leaf)[0]


MASKS = {
    "whole": torch.ones(FEATURES, dtype=D),
    "hard": torch.tensor([1.0, 1, 1, 0, 0, 1], dtype=D),
    "soft": torch.tensor([0.9, 0.2, 0.6, 0.4, 0.8, 0.5], dtype=D),
    "both": torch.tensor([1.0, 0.5, 0, 1, 0.1, 0], dtype=D),
}


@pytest.mark.parametrize(
    ("seed", "strengths"),
    [(0, (0.0, 0.0)), (0, (0.3, 0.3)), (1, (0.0, 0.0)), (1, (0.3, 0.0)), (1, (0.0, 0.3))],
    ids=["loss", "loss and gap", "data", "no w", "no m"],
)
@pytest.mark.parametrize("rho", [0.02, 0.1])
@pytest.mark.parametrize("mask", MASKS)
def test_the_implicit_gradient_is_that_of_finite_differences(mask, rho, seed, strengths):
    """The bar is a relative error of 1e-3; what is left here is that of the differences themselves.
    Also where the weights answer to other data (seed), or another loss, than the mask is judged by:
    the term is not zero then."""
    above, below = Logistic(seed, strengths[0]), Logistic(0, strengths[1])
    m = MASKS[mask]
    theta = solve(below, m, rho)
    found, expected = exact(above, theta, m, rho, below), by_differences(above, m, rho, lower=below)
    assert float((found - expected).norm() / expected.norm()) < 1e-6
    first = closed_form(theta, gradient(above, m * theta), m, rho, "none")
    if seed or (mask, rho) == ("soft", 0.1):
        assert float((first - expected).norm() / expected.norm()) > 0.1, "nothing would be tested"


@pytest.mark.parametrize("rho", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("mask", MASKS)
def test_without_curvature_the_closed_form_is_the_gradient(mask, rho):
    """l = c z: theta* = -m c / rho, l = -m^2 c^2 / rho, dl/dm = -2 m c^2 / rho."""
    loss, m = Linear(), MASKS[mask]
    theta = solve(loss, m, rho)
    assert torch.allclose(theta, -m * loss.c / rho)
    found = closed_form(theta, loss.c, m, rho)
    assert torch.allclose(found, -2 * m * loss.c**2 / rho)
    assert torch.allclose(found, by_differences(loss, m, rho), rtol=1e-7, atol=1e-9)
    assert torch.allclose(found, exact(loss, theta, m, rho))


def test_the_three_forms_by_hand():
    theta, g, m = (torch.tensor([one], dtype=D) for one in (2.0, 3.0, 0.5))
    found = {form: closed_form(theta, g, m, 4.0, form).item() for form in FORMS}
    one = (2 - 0.5 * 3 / 4) * 3
    assert found == {"cross": one, "derived": one, "published": (2 - 3 / 4) * 3, "none": 6.0}
    lower = torch.tensor([-1.0], dtype=D)
    found = {form: closed_form(theta, g, m, 4.0, form, lower).item() for form in FORMS}
    assert found["cross"] == (2 + 0.5 / 4) * 3 and found["derived"] == one, (
        "only the cross form reads the lower level"
    )

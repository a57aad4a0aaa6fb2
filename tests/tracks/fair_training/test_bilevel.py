"""The implicit gradient against finite differences of the bilevel objective, on problems that can
be solved exactly.

Lower level by Newton in float64: theta*(m) = argmin l(m * theta) + rho/2 |theta|^2.
Upper level: l(m * theta*(m)).
"""

import pytest
import torch
from torch import Tensor

from benchmarks.calibration.fair_training import FEATURES, D, Logistic, differences, solved
from engine.tracks.fair_training.trainer import FORMS, closed_form, exact


class Linear:
    """c z: no curvature, so the closed form's assumption holds."""

    c = torch.tensor([1.0, -2.0, 0.5, 3.0, -0.1, 0.7], dtype=D)

    def __call__(self, z: Tensor) -> Tensor:
        return self.c @ z


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
    above, below = Logistic.drawn(seed, strengths[0]), Logistic.drawn(0, strengths[1])
    m = MASKS[mask]
    theta = solved(below, m, rho)
    found, expected = exact(above, theta, m, rho, below), differences(above, below, m, rho)
    assert float((found - expected).norm() / expected.norm()) < 1e-6
    z = (m * theta).requires_grad_(True)
    first = closed_form(theta, torch.autograd.grad(above(z), z)[0], m, rho, "none")
    if seed or (mask, rho) == ("soft", 0.1):
        assert float((first - expected).norm() / expected.norm()) > 0.05, "nothing would be tested"


@pytest.mark.parametrize("rho", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("mask", MASKS)
def test_without_curvature_the_closed_form_is_the_gradient(mask, rho):
    """l = c z: theta* = -m c / rho, l = -m^2 c^2 / rho, dl/dm = -2 m c^2 / rho."""
    loss, m = Linear(), MASKS[mask]
    theta = solved(loss, m, rho)
    assert torch.allclose(theta, -m * loss.c / rho)
    found = closed_form(theta, loss.c, m, rho)
    assert torch.allclose(found, -2 * m * loss.c**2 / rho)
    assert torch.allclose(found, differences(loss, loss, m, rho), rtol=1e-7, atol=1e-9)
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

"""The gap that can be differentiated, against the same in plain numbers, image by image: its value,
its sign, its hinge, what fades, its gradient. The implicit gradient against finite differences of
the bilevel objective, on problems that can be solved exactly."""

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, tensor

from benchmarks.calibration.fair_training import FEATURES, D, Logistic, differences, exact, solved
from engine.tracks.fair_training.implicit import FORMS, closed_form
from engine.tracks.fair_training.surrogate import Surrogate, levels_of, margins

LABELS = [0, 1, 2, 1, 1, 0, 2, 1, 0, 1]
GROUPS = [0, 0, 0, 0, 1, 1, 2, 2, -1, -1]
BATCHES = ([8, 9], [0, 3], [4, 1], [0, 1, 2, 4, 6, 8], [9], [2, 3, 5, 7], [0, 4, 6, 7])
"""Nobody with a group; one group alone; two of three; all; and so on. Read backwards, all come
first. Group 0 is ahead at first, group 1 later."""


def chance(logits: torch.Tensor, label: int, sharpness: float) -> float:
    """logistic(k margin) of the truth's probability p: p^k / (p^k + (1 - p)^k)."""
    p = logits.double().softmax(0)[label].item()
    return p**sharpness / (p**sharpness + (1 - p) ** sharpness)


def plainly(held: Surrogate, drawn: list, batches: Sequence) -> tuple[float, float]:
    """Penalty and running gap after these batches: BiFP's Eq. 8 with 1/P(s) of all training images,
    signs by means that fade, max(F - tau, 0)."""
    known = [group for group in GROUPS if group >= 0]
    sums, counts, means = [0.0] * 3, [0.0] * 3, [0.0] * 3
    for at, (rows, logits) in enumerate(zip(batches, drawn, strict=False)):
        fade = held.momentum if at else 0.0
        grouped = [
            (GROUPS[row], chance(one, LABELS[row], held.sharpness))
            for row, one in zip(rows, logits, strict=True)
            if GROUPS[row] >= 0
        ]
        for group in range(3):
            mine = [one for of, one in grouped if of == group]
            means[group] = sum(mine) / (known.count(group) / len(known)) / max(len(grouped), 1)
            new = (sum(mine), len(mine))
            sums[group], counts[group] = (
                fade * old + (1 - fade if at else 1) * one
                for old, one in zip((sums[group], counts[group]), new, strict=True)
            )
    before = [0.0] * 3 if held.before is None else held.before.tolist()
    lost = {s: before[s] - sums[s] / counts[s] for s in range(3) if counts[s] > 1e-6}
    if not lost:
        return 0.0, math.nan
    worst, least = max(lost, key=lost.get), min(lost, key=lost.get)
    gap = lost[worst] - lost[least]
    penalty = (before[worst] - means[worst]) - (before[least] - means[least]) - held.tolerance
    return penalty if gap > held.tolerance else 0.0, gap


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"momentum": 0.0, "sharpness": 1.7},
        {"tolerance": 0.2, "before": tensor([0.6, 0.9, 0.5])},
        {"tolerance": 0.01, "sharpness": 3.0, "momentum": 0.5},
    ],
    ids=str,
)
@pytest.mark.parametrize(("classes", "batches"), [(3, BATCHES), (5, BATCHES[::-1])])
def test_it_is_what_plain_numbers_say_and_so_is_its_gradient(settings, classes, batches):
    draw = torch.Generator().manual_seed(classes)
    held, drawn, penalties = Surrogate(tensor(LABELS), tensor(GROUPS), **settings), [], []
    for at, rows in enumerate(batches):
        logits = torch.randn(len(rows), classes, generator=draw)
        ahead = 0 if at < 4 else 1
        for row, one in zip(rows, logits, strict=True):
            one[LABELS[row]] += 2.0 * (GROUPS[row] == ahead)
        drawn.append(logits.requires_grad_(True))
        penalty, gap = held.of(tensor(rows), logits)
        penalty.backward()
        expected = plainly(held, drawn, batches)
        assert (penalty.item(), gap) == pytest.approx(expected, abs=2e-6, nan_ok=True)
        for row, column in itertools.product(range(len(rows)), range(classes)):
            ends = [logits.detach().double() for _ in range(2)]
            ends[0][row, column] += 1e-4
            ends[1][row, column] -= 1e-4
            up, down = (plainly(held, [*drawn[:-1], end], batches)[0] for end in ends)
            assert logits.grad[row, column].item() == pytest.approx((up - down) / 2e-4, abs=1e-5)
        penalties.append(penalty.item())
    if not settings:
        assert min(penalties) < 0 < max(penalties), "signs come from what fades, not from the batch"


def test_certain_answers_have_finite_margins_and_gradients():
    logits = tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]], requires_grad=True)
    found = margins(logits, tensor([0, 0]))
    torch.sigmoid(found).sum().backward()
    assert bool(found.isfinite().all()) and bool(logits.grad.isfinite().all())


def test_nobody_has_a_group():
    with pytest.raises(ValueError, match="no training image has a group"):
        Surrogate(tensor([1, 0]), tensor([-1, -1]))


def test_levels_by_hand():
    probabilities = tensor([[0.2, 0.8], [0.4, 0.6], [0.9, 0.1], [0.5, 0.5]])
    rest = tensor([1, 1, 1, 0]), tensor([0, 0, 1, -1])
    assert levels_of(probabilities, *rest).tolist() == pytest.approx([0.7, 0.1], abs=1e-6)
    sharp = levels_of(probabilities, *rest, sharpness=2.0)
    assert sharp[1] == pytest.approx(0.01 / 0.82, abs=1e-6)
    certain = levels_of(tensor([[1.0, 0.0], [0.0, 1.0]]), tensor([0, 0]), tensor([0, 1]))
    assert certain.tolist() == pytest.approx([1.0, 0.0], abs=1e-6)  # log of zero does no harm


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

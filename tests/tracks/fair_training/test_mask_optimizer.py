"""Mask scores on their budget: the projection by hand and against its definition, the steps by
hand, going on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import tensor

from engine.tracks.fair_training.training.masked import (
    BLOCK,
    CLOSE,
    FADES,
    MaskOptimizer,
    on_budget,
    on_priced_budget,
)


@pytest.mark.parametrize(
    ("scores", "count", "expected"),
    [
        ([0.5, 0.5, 0.5, 0.5], 2, [0.5, 0.5, 0.5, 0.5]),  # on the budget already
        ([1.0, 0.0, 1.0, 0.0], 2, [1, 0, 1, 0]),
        ([0.9, 0.7, 0.5, 0.3], 2, [0.8, 0.6, 0.4, 0.2]),  # .4 too much, shared by all
        ([0.1, 0.1, 0.1, 0.1], 2, [0.5, 0.5, 0.5, 0.5]),
        (
            [9.0, 9.0, 9.0, 9.0],
            1,
            [0.25, 0.25, 0.25, 0.25],
        ),  # a step that raises all alike changes nothing
        (
            [5.0, 0.2, 0.1, 0.0],
            2,
            [1.0, 1.3 / 3, 1.0 / 3, 0.7 / 3],
        ),  # one is full, the others share what is left
        ([0.6, 0.5, 0.4, -3.0], 1, [1.3 / 3, 1.0 / 3, 0.7 / 3, 0.0]),
        ([2.0, 3.0, -1.0, -2.0], 2, [1, 1, 0, 0]),
        ([0.3, 0.8], 2, [1, 1]),
    ],
)
def test_the_budget_by_hand(scores, count, expected):
    assert on_budget(tensor(scores), count).tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_nearest_point_of_the_budget_and_keeps_the_order(seed):
    """Nearer than any of many other points that hold the budget; its sum is exact; a second time
    changes nothing."""
    draw = np.random.default_rng(seed)
    scores = tensor(draw.normal(0.5, 2.0, 40))
    count = int(draw.integers(1, 40))
    found = on_budget(scores, count)
    assert (
        float(found.sum()) == pytest.approx(count, abs=1e-6)
        and 0.0 <= found.min() <= found.max() <= 1.0
    )
    assert torch.allclose(on_budget(found, count), found, atol=1e-9)
    order = scores.argsort()
    assert (found[order].diff() >= 0).all()
    mine = (found - scores).norm()
    for _ in range(200):
        other = on_budget(tensor(draw.normal(0.5, 2.0, 40)), count)
        assert (other - scores).norm() >= mine - 1e-9
        between = 0.99 * found + 0.01 * other  # the budget is convex, so this holds it too
        assert (between - scores).norm() >= mine - 1e-9


def test_many_scores_in_single_precision():
    scores = torch.rand(300_000, generator=torch.Generator().manual_seed(0))
    assert float(on_budget(scores, 51_000).double().sum()) == pytest.approx(51_000, rel=1e-4)


def test_the_first_step_by_hand():
    """Momentum and scale are corrected for their start, so it is rate * g / rms(g), then the
    budget."""
    scores = tensor([0.5, 0.5, 0.5, 0.5])
    mask_optimizer = MaskOptimizer(scores, 2)
    mask_optimizer.step(tensor([3.0, -1.0, 1.0, -1.0]), 0.1)
    moved = tensor([-3.0, 1.0, -1.0, 1.0]) * 0.1 / (12 / 4) ** 0.5
    assert torch.allclose(scores, on_budget(0.5 + moved, 2), atol=1e-6)
    assert float(scores.sum()) == pytest.approx(2.0, abs=1e-6)


def test_two_steps_by_hand():
    scores = tensor([0.5, 0.5, 0.5, 0.5], dtype=torch.float64)
    mask_optimizer = MaskOptimizer(scores, 2)
    one, two = (
        tensor(values, dtype=torch.float64)
        for values in ([1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 2.0, -2.0])
    )
    mask_optimizer.step(one, 0.1)
    between = scores.clone()
    mask_optimizer.step(two, 0.05)
    fade, slow = FADES
    momentum = (fade * (1 - fade) * one + (1 - fade) * two) / (1 - fade**2)
    scale = ((slow * (1 - slow) * 0.5 + (1 - slow) * 2.0) / (1 - slow**2)) ** 0.5
    assert torch.allclose(scores, on_budget(between - 0.05 * momentum / scale, 2), atol=1e-9)


def test_sizes_count_unlike_in_adam():
    """All gradients have the same sign; the largest rise, the others fall, nothing piles up at
    1."""
    scores = torch.full((10,), 0.5)
    mask_optimizer = MaskOptimizer(scores, 5)
    for _ in range(400):
        mask_optimizer.step(-torch.arange(1.0, 11.0), 0.05)
    assert scores[5:].tolist() == pytest.approx([1.0] * 5, abs=1e-3)
    assert scores[:5].tolist() == pytest.approx([0.0] * 5, abs=1e-3)


def test_no_gradient_moves_nothing():
    scores = tensor([0.5, 0.7, 0.3, 0.5])
    MaskOptimizer(scores, 2).step(torch.zeros(4), 0.1)
    assert scores.tolist() == pytest.approx([0.5, 0.7, 0.3, 0.5], abs=1e-6)


def test_it_goes_on_where_it_stopped_to_the_bit():
    gradients = torch.randn(9, 12, generator=torch.Generator().manual_seed(2))
    whole, first = torch.full((12,), 0.5), torch.full((12,), 0.5)
    mask_optimizer, begun = MaskOptimizer(whole, 6), MaskOptimizer(first, 6)
    for gradient in gradients:
        mask_optimizer.step(gradient, 0.1)
    for gradient in gradients[:4]:
        begun.step(gradient, 0.1)
    state = begun.state()
    begun.step(100 * gradients[0], 0.5)  # what is kept is a copy
    again = torch.zeros(12)
    resumed = MaskOptimizer(again, 6)
    resumed.restore(state)
    for gradient in gradients[4:]:
        resumed.step(gradient, 0.1)
    assert torch.equal(whole, again)


@pytest.mark.parametrize("seed", range(4))
def test_the_priced_budget_is_the_nearest_point_that_costs_as_much(seed):
    """Against a general solver: the projection on {0 ≤ m ≤ 1, Σ price m = budget}."""
    draw = np.random.default_rng(seed)
    scores, price = draw.normal(0.5, 0.6, 12), draw.uniform(0.2, 3.0, 12)
    budget = float(0.4 * price.sum())
    found = on_priced_budget(tensor(scores.tolist()).double(), price, budget).numpy()
    held = {"type": "eq", "fun": lambda m: price @ m - budget}
    best = minimize(
        lambda m: ((m - scores) ** 2).sum(),
        np.full(12, 0.4),
        bounds=[(0, 1)] * 12,
        constraints=[held],
    )
    assert price @ found == pytest.approx(budget) and np.allclose(found, best.x, atol=1e-3)
    even = on_priced_budget(tensor(scores.tolist()).double(), np.ones(12), 5.0)
    assert torch.allclose(even, on_budget(tensor(scores.tolist()).double(), 5), atol=1e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_no_number_shows(bad):
    """Who calls it looks at the scores afterwards and stops."""
    scores = torch.full((3,), 0.5)
    MaskOptimizer(scores, 1).step(tensor([1.0, bad, 0.0]), 0.1)
    assert not scores.isfinite().all()


def plainly(scores, momentum, gradient, scale, steps, count, rate):
    """A step with one operation after the other on all scores, as it is written down; scores and
    momentum change."""
    momentum.mul_(FADES[0]).add_(gradient, alpha=1 - FADES[0])
    square = float(torch.linalg.vector_norm(gradient, dtype=torch.float64)) ** 2 / len(gradient)
    scale = FADES[1] * scale + (1 - FADES[1]) * square
    size = (scale / (1 - FADES[1] ** steps)) ** 0.5 + 1e-12
    scores.add_(momentum, alpha=-rate / (1 - FADES[0] ** steps) / size)
    low, high, middle = float(scores.min()) - 1.0, float(scores.max()), 0.0
    while True:
        clipped = (scores - middle).clamp(0.0, 1.0)
        over = float(clipped.sum(dtype=torch.float64)) - count
        if abs(over) <= CLOSE * count:
            scores.copy_(clipped)
            return scale
        low, high = (middle, high) if over > 0 else (low, middle)
        middle += over / int(((clipped > 0) & (clipped < 1)).sum())
        assert low < middle < high


def test_block_by_block_is_all_at_once_to_the_bit():
    draw = torch.Generator().manual_seed(0)
    before = torch.rand(4 * BLOCK + 77, generator=draw)
    count = int(0.3 * len(before))
    ours = MaskOptimizer(before.clone(), count)
    scores, momentum, scale = before.clone(), torch.zeros_like(before), 0.0
    for step in range(1, 5):
        gradient = torch.randn(len(before), generator=draw)
        ours.step(gradient, 0.1)
        scale = plainly(scores, momentum, gradient, scale, step, count, 0.1)
        assert torch.equal(ours.scores, scores) and torch.equal(ours.momentum, momentum)
        assert ours.scale == pytest.approx(scale, rel=1e-12)  # added up in another order

"""Mask scores on their budget: the projection by hand and against its definition, steps as they are
written down, going on."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import tensor

from engine.tracks.fair_training.masked import (
    BLOCK,
    CLOSE,
    FADES,
    MaskOptimizer,
    on_priced_budget,
    put_on_budget,
)


def on_budget(scores, count):
    found = scores.clone()
    put_on_budget(found, count)
    return found


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
        gradient = (step - 1) * torch.randn(len(before), generator=draw)  # the first moves nothing
        ours.step(gradient, 0.1)
        scale = plainly(scores, momentum, gradient, scale, step, count, 0.1)
        assert torch.equal(ours.scores, scores) and torch.equal(ours.momentum, momentum)
        assert ours.scale == pytest.approx(scale, rel=1e-12)  # added up in another order

"""Masks on parameters: the same as gates on filters and as really cut; no trace; exact numbers of
units; gradients. Their scores on a budget: the projection, steps as written down, going on."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import tensor

from engine.models.vision import architectures
from engine.surgery.filters.graph import cut_filters, filter_graph, gated
from engine.surgery.filters.reading import COUNTED
from engine.tracks.fair_training.masked import (
    BLOCK,
    CLOSE,
    FADES,
    SAMPLE,
    MaskOptimizer,
    best,
    kept_of,
    masked_filters_of,
    masked_weights_of,
    on_priced_budget,
    put_on_budget,
)
from engine.tracks.fair_training.trainer import ALMOST
from tests.classifiers.worlds import (
    SMALL,
    Tied,
    TwoConvs,
    hooks_of,
    lively,
    some_mask,
    some_pixels,
    state,
    tiny,
)

QUICK = {SMALL, "resnet10", "resnet56", "mobilenet_v2", "vgg16"}
MODELS = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)
    for name in sorted(QUICK | {name for name, one in architectures().items() if one.is_proved})
]


def same(one: dict, two: dict) -> bool:
    return all(torch.equal(one[name], two[name]) for name in one)


def small(name: str):
    return lively(name, min(32, max(16, architectures()[name].min_size)))


def some_images(classifier, n: int = 2, dtype=torch.float64) -> torch.Tensor:
    draw = np.random.default_rng(0)
    return torch.as_tensor(
        draw.standard_normal((n, 3, classifier.size, classifier.size)), dtype=dtype
    )


@pytest.mark.parametrize("name", MODELS)
def test_masked_parameters_are_gates_are_really_cut(name):
    """In float64, so that whatever differs is no rounding. resnet56 has shortcuts without
    parameters."""
    whole = small(name)
    graph = filter_graph(whole)
    mask = graph.mask(some_mask(graph))
    keep = torch.as_tensor(mask.keep()).double()
    cut, _ = cut_filters(whole, mask)
    images, model = some_images(whole), whole.model.double()
    held = masked_filters_of(model, graph)
    before = state(model)
    with torch.no_grad():
        dense = model(images)
        found, masked = held.forward(images, keep)
        with held.baked(keep) as baked:
            assert baked is model and not model.training
            as_baked = model(images)
        with gated(model, graph, keep):
            as_gates = model(images)
        as_cut = cut.model.double()(images)
    allowed = 1e-9 * float(found.abs().max())
    for other in (as_baked, as_gates, as_cut):
        assert float((found - other).abs().max()) <= allowed
    assert not torch.allclose(found, dense, rtol=1e-2)
    assert set(masked) == {part.name for part in held.parts} and held.total == graph.total
    assert same(before, state(model)) and hooks_of(model) == 0
    assert name not in QUICK or (held.bare is not None) == (name == "resnet56")


@pytest.mark.parametrize("name", [SMALL, "vgg16", "mobilenet_v2"])
def test_masked_weights_are_zeroed_weights(name):
    whole = small(name)
    held = masked_weights_of(whole.model)
    assert held.total == sum(
        one.weight.numel() for one in whole.model.modules() if isinstance(one, COUNTED)
    )
    keep = torch.as_tensor(np.random.default_rng(1).random(held.total) < 0.7).float()
    zeroed = small(name)
    place = 0
    for module in zeroed.model.modules():
        if isinstance(module, COUNTED):
            count = module.weight.numel()
            module.weight *= keep[place : place + count].view(module.weight.shape)
            place += count
    images = some_images(whole, dtype=torch.float32)
    before = state(whole.model)
    with torch.no_grad():
        expected = zeroed.model(images)
        assert torch.equal(held.forward(images, keep)[0], expected)
        with held.baked(keep) as model:
            assert torch.equal(model(images), expected) and same(state(zeroed.model), state(model))
    assert same(before, state(whole.model))
    assert held.blocks.max() + 1 == len(held.parts) and (np.diff(held.blocks) >= 0).all()


def test_biases_and_batch_norm_are_no_weights():
    """conv1 3x3 3 -> 3, conv2 1x1 3 -> 4, fc 4 -> 2: 81 + 12 + 8, in the order of the modules."""
    held = masked_weights_of(tiny().model)
    assert [part.name for part in held.parts] == ["conv1.weight", "conv2.weight", "fc.weight"]
    assert np.bincount(held.blocks).tolist() == [81, 12, 8]


@pytest.mark.parametrize("training", [True, False])
def test_baked_leaves_nothing_behind_even_after_an_exception(training):
    whole = lively("resnet20", 16)  # has shortcuts that are gated by hooks
    held = masked_filters_of(whole.model, filter_graph(whole))
    mask = torch.as_tensor(some_mask(filter_graph(whole))).float()
    whole.model.train(training)
    before = state(whole.model)
    with held.baked(mask) as model:
        assert not same(before, state(model)) and hooks_of(model) > 0 and not model.training
    assert (
        same(before, state(whole.model))
        and hooks_of(whole.model) == 0
        and whole.model.training == training
    )
    with pytest.raises(ZeroDivisionError), held.baked(mask):
        raise ZeroDivisionError
    assert (
        same(before, state(whole.model))
        and hooks_of(whole.model) == 0
        and whole.model.training == training
    )


@pytest.mark.parametrize("units", ["filters", "weights"])
@pytest.mark.parametrize("make", [TwoConvs, Tied, "resnet20"])
def test_the_gradient_of_the_mask_is_that_of_the_finite_difference(units, make):
    """Through autograd at a soft mask; tied convolutions and parameterless shortcuts included."""
    whole = lively(make, 16, 2) if isinstance(make, str) else tiny(make())
    graph = filter_graph(whole)
    whole.model.double()
    held = (
        masked_filters_of(whole.model, graph)
        if units == "filters"
        else masked_weights_of(whole.model)
    )
    images = some_images(whole, 2)
    draw = torch.Generator().manual_seed(0)
    mask = (0.3 + 0.7 * torch.rand(held.total, generator=draw)).double()

    def answer(values: torch.Tensor) -> torch.Tensor:
        return held.forward(images, values)[0][:, 0].sum()

    leaf = mask.clone().requires_grad_(True)
    answer(leaf).backward()
    for unit in np.unique(np.linspace(0, held.total - 1, 25).astype(int)):
        ends = [mask.clone(), mask.clone()]
        ends[0][unit] += 1e-6
        ends[1][unit] -= 1e-6
        with torch.no_grad():
            slope = float(answer(ends[0]) - answer(ends[1])) / 2e-6
        assert leaf.grad[unit].item() == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_the_gradient_of_a_mask_is_theta_times_the_gradient_of_z_summed_over_the_unit():
    """What the upper level adds its implicit term to. Cut ones are almost 0, so that the ReLU
    behind them is open."""
    whole = tiny()
    whole.model.bn2.bias += 2.0  # every filter speaks
    graph = filter_graph(whole)
    held = masked_filters_of(whole.model, graph)
    mask = torch.tensor([1.0, 0, 1, 1, 0, 1, 1]).clamp(min=ALMOST).requires_grad_(True)
    logits, z = held.forward(whole.prepared(some_pixels(3, 8)), mask)
    for value in z.values():
        value.retain_grad()
    logits[:, 0].sum().backward()
    values = dict(whole.model.named_parameters())
    by_hand = torch.zeros(7)
    by_hand[:3] = (values["conv1.weight"] * z["conv1.weight"].grad).sum(dim=(1, 2, 3))
    by_hand[:3] += values["conv1.bias"] * z["conv1.bias"].grad
    by_hand[3:] = (
        values["bn2.weight"] * z["bn2.weight"].grad + values["bn2.bias"] * z["bn2.bias"].grad
    )
    assert torch.allclose(mask.grad, by_hand, rtol=1e-4, atol=1e-6) and mask.grad[4].abs() > 1e-3
    each = {name: values[name].detach() * value.grad for name, value in z.items()}
    assert torch.allclose(held.sums(each), by_hand, rtol=1e-4, atol=1e-6)


def test_leaves_and_hooks_together_hold_the_whole_gradient_of_the_mask():
    """Half of the filters are gated by a hook: what ends at z and what reaches the mask add up to
    all of it."""
    model = TwoConvs()
    model.bn2 = torch.nn.BatchNorm2d(4, affine=False)
    whole = tiny(model)
    held = masked_filters_of(whole.model.requires_grad_(True), filter_graph(whole))
    values, images = dict(whole.model.named_parameters()), whole.prepared(some_pixels(3, 8))
    mask = torch.linspace(0.3, 1.0, 7).requires_grad_(True)
    held.forward(images, mask)[0][:, 0].sum().backward()
    other = mask.detach().clone().requires_grad_(True)
    logits, z = held.forward(images, other, leaves=True)
    rest, *gradients = torch.autograd.grad(logits[:, 0].sum(), [other, *z.values()])
    found = held.sums(
        {name: values[name].detach() * g for name, g in zip(z, gradients, strict=True)}
    )
    assert (
        found[:3].abs().min() > 0
        and rest[3:].abs().min() > 0
        and not found[3:].any()
        and not rest[:3].any()
    )
    assert torch.allclose(found + rest, mask.grad, rtol=1e-5, atol=1e-7)


def test_squared_norms_by_hand():
    whole = tiny(Tied())
    held = masked_filters_of(whole.model, filter_graph(whole))
    found, model = held.flat(), whole.model
    first = model.conv1.weight.square().sum(dim=(1, 2, 3)) + model.conv1.bias.square()
    first += model.conv3.weight.square().sum(dim=(1, 2, 3)) + model.conv3.bias.square()
    second = model.conv2.weight.square().sum(dim=(1, 2, 3)) + model.conv2.bias.square()
    assert torch.allclose(found, torch.cat([first, second]))
    weights = masked_weights_of(model)
    assert torch.allclose(weights.flat()[:9], model.conv1.weight.flatten() ** 2)


@pytest.mark.parametrize(
    ("total", "sparsity", "count"),
    [
        (100, 0.7, 30),
        (100, 0.0, 100),
        (10, 0.488, 5),
        (10, 0.832, 2),
        (3, 0.99, 1),
        (1000, 1 - 0.8**3, 512),
    ],
)
def test_how_many_stay(total, sparsity, count):
    assert kept_of(total, sparsity) == count


@pytest.mark.parametrize("n", [80, 20 * SAMPLE + 3])
@pytest.mark.parametrize("draw", ["uniform", "mostly 0 and 1", "few values"])
def test_the_best_are_those_that_sorting_finds(draw, n):
    """The first of the highest of every block, then the highest of the others, ties by place."""
    scores = np.random.default_rng(0).random(n, dtype=np.float32)
    scores = {
        "uniform": scores,
        "mostly 0 and 1": (3 * scores - 1).clip(0, 1),
        "few values": scores.round(1),
    }[draw]
    scores[-10:] /= 20  # two blocks that would be cut whole
    blocks, starts = np.repeat(np.arange(4), [5, n - 15, 7, 3]), np.array([0, 5, n - 10, n - 3])
    parts = zip(starts, np.split(scores, starts[1:]), strict=True)
    firsts = [start + part.argmax() for start, part in parts]
    order = np.lexsort((np.arange(n), -scores))
    others = order[~np.isin(order, firsts)]
    for count in (4, 5, n // 3, n - 7, n):
        expected = np.zeros(n, dtype=bool)
        expected[firsts] = expected[others[: count - 4]] = True
        np.testing.assert_array_equal(best(scores, count, blocks), expected)
        np.testing.assert_array_equal(best(scores, count, blocks, starts), expected)
    with pytest.raises(ValueError, match="3 units cannot leave one in each of 4 layers"):
        best(scores, 3, blocks)


def test_where_blocks_begin():
    model = tiny()
    assert masked_weights_of(model.model).starts.tolist() == [0, 81, 93]
    mixed = replace(masked_weights_of(model.model), blocks=np.array([0, 1, 1, 0]))
    assert mixed.starts is None


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

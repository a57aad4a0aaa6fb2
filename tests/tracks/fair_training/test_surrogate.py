"""The gap that can be differentiated: by hand for two and three groups, its sign, its hinge, its
gradient."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import tensor

from engine.tracks.fair_training.training.trainer import Surrogate, levels_of, margins


def logits_of(chances: list[float]) -> torch.Tensor:
    """Two classes; class 1 has these probabilities."""
    p = tensor(chances)
    return torch.stack([(1 - p).log(), p.log()], dim=1)


def surrogate(labels, groups, **more) -> Surrogate:
    return Surrogate(tensor(labels), tensor(groups), **more)


def test_a_margin_by_hand():
    """Three classes, logits 2, 1, 0 and truth 0: 2 - log(e^1 + e^0). For two classes it is y
    f(x)."""
    assert float(margins(tensor([[2.0, 1.0, 0.0]]), tensor([0]))) == pytest.approx(
        2 - math.log(math.e + 1)
    )
    assert margins(tensor([[0.5, 2.0], [0.5, 2.0]]), tensor([1, 0])).tolist() == pytest.approx(
        [1.5, -1.5]
    )


def test_certain_answers_have_finite_margins_and_gradients():
    logits = tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]], requires_grad=True)
    found = margins(logits, tensor([0, 0]))
    torch.sigmoid(found).sum().backward()
    assert bool(found.isfinite().all()) and bool(logits.grad.isfinite().all())


def test_equation_8_by_hand_for_two_groups():
    """Training images: three of group 0, one of group 1, so 1/P(s) is 4/3 and 4. u is the truth's
    probability."""
    held = surrogate([1, 1, 1, 1], [0, 0, 0, 1])
    assert held.shares.tolist() == pytest.approx([0.75, 0.25])
    penalty, gap = held.of(torch.arange(4), logits_of([0.9, 0.6, 0.3, 0.2]))
    high, low = (0.9 + 0.6 + 0.3) / 0.75 / 4, 0.2 / 0.25 / 4  # 1/N sum of u / P(s)
    assert float(penalty) == pytest.approx(high - low, abs=1e-6) and (high, low) == pytest.approx(
        (0.6, 0.2)
    )
    assert gap == pytest.approx(
        0.6 - 0.2, abs=1e-6
    )  # whole training set in one batch: both are the means


def test_in_a_batch_equation_8_weights_by_the_shares_of_the_training_set():
    """Rows 0 and 3: half of the batch is of group 1, which is a quarter of the training set."""
    held = surrogate([1, 1, 1, 1], [0, 0, 0, 1])
    penalty, gap = held.of(tensor([0, 3]), logits_of([0.9, 0.2]))
    assert float(penalty) == pytest.approx(0.9 / 0.75 / 2 - 0.2 / 0.25 / 2, abs=1e-6)
    assert gap == pytest.approx(0.9 - 0.2, abs=1e-6)  # the running gap is of means


def test_three_groups_are_the_highest_minus_the_lowest():
    held = surrogate([1] * 6, [0, 0, 1, 1, 2, 2])
    logits = logits_of([0.5, 0.5, 0.9, 0.7, 0.3, 0.1]).requires_grad_(True)
    penalty, gap = held.of(torch.arange(6), logits)
    assert gap == pytest.approx(0.8 - 0.2, abs=1e-6) and penalty.item() == pytest.approx(
        0.6, abs=1e-6
    )
    penalty.backward()
    assert logits.grad[:2].abs().max() == 0.0  # the group in the middle is left alone
    assert (logits.grad[2:4, 1] > 0).all() and (
        logits.grad[4:, 1] < 0
    ).all()  # down with the best, up with the worst


def test_sharpness_by_hand():
    """logistic(k margin): for two classes with probability p, p^k / (p^k + (1-p)^k)."""
    held = surrogate([1, 1], [0, 1], sharpness=3.0)
    _, gap = held.of(torch.arange(2), logits_of([0.8, 0.4]))
    expected = [p**3 / (p**3 + (1 - p) ** 3) for p in (0.8, 0.4)]
    assert gap == pytest.approx(expected[0] - expected[1], abs=1e-6)


def test_the_gap_has_no_sign_whichever_group_is_ahead():
    one = surrogate([1, 1], [0, 1]).of(torch.arange(2), logits_of([0.8, 0.3]))
    two = surrogate([1, 1], [1, 0]).of(torch.arange(2), logits_of([0.8, 0.3]))
    assert one[1] == two[1] == pytest.approx(0.5, abs=1e-6) and float(one[0]) == float(two[0])


@pytest.mark.parametrize(
    ("tolerance", "penalty"), [(0.0, 0.5), (0.2, 0.3), (0.49, 0.01), (0.5001, 0.0), (0.9, 0.0)]
)
def test_the_hinge_at_the_tolerance(tolerance, penalty):
    """max(F - tau, 0), and no gradient below tau."""
    logits = logits_of([0.8, 0.3]).requires_grad_(True)
    found, gap = surrogate([1, 1], [0, 1], tolerance=tolerance).of(torch.arange(2), logits)
    found.backward()
    assert float(found.detach()) == pytest.approx(penalty, abs=1e-6) and gap == pytest.approx(
        0.5, abs=1e-6
    )
    assert bool(logits.grad.abs().max() > 0) == (penalty > 0)


def test_the_running_mean_fades_by_hand():
    """Sums and counts are kept, nine parts old and one part new; the first batch counts whole."""
    held = surrogate([1, 1, 1, 1], [0, 1, 0, 1])
    held.of(tensor([0, 1]), logits_of([0.8, 0.4]))
    assert torch.allclose(held.running, tensor([[0.8, 0.4], [1.0, 1.0]]), atol=1e-6)
    _, gap = held.of(tensor([2]), logits_of([0.2]))
    assert torch.allclose(held.running, tensor([[0.74, 0.36], [1.0, 0.9]]), atol=1e-6)
    assert gap == pytest.approx(
        0.74 - 0.4, abs=1e-6
    )  # group 1 stays at .4: nobody of it was in the batch


def test_signs_come_from_the_running_mean_and_gradients_from_the_batch():
    """Over many batches group 0 is ahead; in this one it is behind, and still it is what must come
    down."""
    held = surrogate([1, 1], [0, 1])
    for _ in range(20):
        held.of(torch.arange(2), logits_of([0.9, 0.2]))
    logits = logits_of([0.4, 0.6]).requires_grad_(True)
    penalty, gap = held.of(torch.arange(2), logits)
    penalty.backward()
    assert gap > 0 > float(penalty.detach()) and float(penalty.detach()) == pytest.approx(
        0.4 - 0.6, abs=1e-6
    )
    assert logits.grad[0, 1] > 0 > logits.grad[1, 1]


def test_without_memory_every_batch_stands_for_itself():
    held = surrogate([1, 1], [0, 1], momentum=0.0)
    held.of(torch.arange(2), logits_of([0.9, 0.2]))
    assert held.of(torch.arange(2), logits_of([0.4, 0.6]))[1] == pytest.approx(0.2, abs=1e-6)


def test_an_image_without_a_group_counts_nowhere():
    with_it = surrogate([1, 1, 0], [0, 1, -1])
    without = surrogate([1, 1], [0, 1])
    logits = logits_of([0.8, 0.3, 0.999]).requires_grad_(True)
    penalty, gap = with_it.of(torch.arange(3), logits)
    other, same = without.of(torch.arange(2), logits_of([0.8, 0.3]))
    assert float(penalty) == float(other) and gap == same
    penalty.backward()
    assert logits.grad[2].abs().max() == 0.0
    assert with_it.shares.tolist() == [0.5, 0.5]


def test_a_batch_in_which_nobody_has_a_group():
    held = surrogate([1, 1, 1], [0, 1, -1])
    logits = logits_of([0.7]).requires_grad_(True)
    penalty, gap = held.of(tensor([2]), logits)
    penalty.backward()
    assert math.isnan(gap)
    assert float(penalty) == 0.0 and logits.grad.abs().max() == 0.0
    held.of(tensor([0, 1]), logits_of([0.9, 0.4]))
    assert held.of(tensor([2]), logits_of([0.1]))[1] == pytest.approx(
        0.5, abs=1e-6
    )  # the running gap stays


def test_a_group_not_met_so_far_is_no_extreme():
    """Only group 0 so far: nothing to compare, no penalty. Then two of three are compared."""
    held = surrogate([1, 1, 1], [0, 1, 2])
    penalty, gap = held.of(tensor([0]), logits_of([0.9]))
    assert (float(penalty), gap) == (0.0, 0.0)
    assert held.of(tensor([1]), logits_of([0.4]))[1] == pytest.approx(0.5, abs=1e-6)


def test_nobody_has_a_group():
    with pytest.raises(ValueError, match="no training image has a group"):
        surrogate([1, 0], [-1, -1])


def test_degradation_by_hand():
    """Group 0 fell from .9 to .6, group 1 from .5 to .4: it lost .2 more, though it is still ahead
    in accuracy."""
    held = surrogate([1, 1], [0, 1], before=tensor([0.9, 0.5]))
    logits = logits_of([0.6, 0.4]).requires_grad_(True)
    penalty, gap = held.of(torch.arange(2), logits)
    penalty.backward()
    assert gap == pytest.approx(0.2, abs=1e-6) and float(penalty) == pytest.approx(0.2, abs=1e-6)
    assert logits.grad[0, 1] < 0 < logits.grad[1, 1]  # accuracy fairness would pull the other way
    accuracy = surrogate([1, 1], [0, 1]).of(torch.arange(2), logits)[1]
    assert accuracy == pytest.approx(0.2, abs=1e-6)


def test_a_model_that_lost_nothing_has_no_degradation_gap():
    probabilities = torch.rand(30, 3, generator=torch.Generator().manual_seed(0)).softmax(dim=1)
    labels, groups = torch.arange(30) % 3, torch.arange(30) % 4
    before = levels_of(probabilities, labels, groups)
    penalty, gap = Surrogate(labels, groups, before).of(torch.arange(30), probabilities.log())
    assert gap == pytest.approx(0.0, abs=1e-6) and float(penalty) == pytest.approx(0.0, abs=1e-2)


def test_levels_by_hand():
    probabilities = tensor([[0.2, 0.8], [0.4, 0.6], [0.9, 0.1], [0.5, 0.5]])
    found = levels_of(probabilities, tensor([1, 1, 1, 0]), tensor([0, 0, 1, -1]))
    assert found.tolist() == pytest.approx([0.7, 0.1], abs=1e-6)
    sharp = levels_of(probabilities, tensor([1, 1, 1, 0]), tensor([0, 0, 1, -1]), sharpness=2.0)
    assert sharp[1] == pytest.approx(0.01 / 0.82, abs=1e-6)
    certain = levels_of(tensor([[1.0, 0.0], [0.0, 1.0]]), tensor([0, 0]), tensor([0, 1]))
    assert certain.tolist() == pytest.approx([1.0, 0.0], abs=1e-6)  # log of zero does no harm


@pytest.mark.parametrize("notion", ["accuracy", "degradation"])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_gradient_is_that_of_the_finite_difference(notion, classes):
    draw = torch.Generator().manual_seed(classes)
    logits = torch.randn(9, classes, generator=draw)
    labels, groups = torch.arange(9) % classes, tensor([0, 0, 0, 1, 1, 2, 2, 2, -1])
    before = tensor([0.6, 0.9, 0.5]) if notion == "degradation" else None

    def penalty(values: torch.Tensor) -> torch.Tensor:
        return Surrogate(labels, groups, before, sharpness=1.7).of(torch.arange(9), values)[0]

    leaf = logits.clone().requires_grad_(True)
    penalty(leaf).backward()
    slopes = torch.empty_like(logits)
    for row, column in itertools.product(range(9), range(classes)):
        step = torch.zeros_like(logits)
        step[row, column] = 1e-2
        slopes[row, column] = (penalty(logits + step) - penalty(logits - step)) / 2e-2
    assert torch.allclose(leaf.grad, slopes, atol=2e-4)
    assert slopes[-1].abs().max() == 0.0 and slopes.abs().max() > 1e-2

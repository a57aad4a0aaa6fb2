"""The gap that can be differentiated, against the same in plain numbers, image by image: its value,
its sign, its hinge, what fades, its gradient."""

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from torch import tensor

from engine.tracks.fair_training.trainer import Surrogate, levels_of, margins

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

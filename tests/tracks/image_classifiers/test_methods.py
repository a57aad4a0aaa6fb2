"""What every way to choose filters promises, found by itself; and the simple ones by hand."""

from functools import cache

import numpy as np
import pytest
import torch

from engine.surgery.filters.graph import filter_graph
from engine.surgery.ranking import shares_within
from engine.tracks.image_classifiers.methods import FilterJob, filter_method, filter_methods
from tests.classifiers.worlds import (
    SMALL,
    Tied,
    graph_by_hand,
    lively,
    some_batches,
    some_targets,
    tiny,
)

QUICK = {"iterations": 10, "every": 1, "count": 60, "batch": 8}
N, SPEEDUPS = 24, (2.0, 5.0)


@cache
def graph():
    return filter_graph(lively(SMALL, 16, 2))


def job(method, seed=0, speedups=SPEEDUPS, classifier=None, **more):
    classifier = classifier or lively(SMALL, 16, 2)
    declared = {setting.name for setting in method.settings}
    settings = {name: value for name, value in QUICK.items() if name in declared}
    held = some_targets(N) if method.looks_at_images else None
    return FilterJob(
        classifier,
        graph(),
        some_batches(classifier, N, 8, seed=seed),
        held,
        speedups,
        seed,
        settings,
        **more,
    )


@cache
def chosen(name, seed=0):
    return list(filter_method(name).choose(job(filter_method(name), seed)))


EACH = pytest.mark.parametrize("name", filter_methods())


@EACH
def test_one_answer_per_speedup_ascending_with_a_filter_in_every_layer_and_the_target_met(name):
    found = chosen(name)
    assert [one.speedup for one in found] == sorted(SPEEDUPS)
    for one in found:
        assert one.scores.shape == one.keep.shape == (graph().total,) and one.keep.dtype == bool
        assert np.isfinite(one.scores).all()
        assert np.bincount(graph().group_of[one.keep], minlength=len(graph().groups)).min() >= 1
        goal = graph().flops() / one.speedup
        assert one.met == (abs(graph().flops(one.keep) - goal) <= 1e-3 * goal)
        assert all({"step", "loss"} <= set(row) for row in one.curve)
        assert bool(one.curve) == filter_methods()[name].looks_at_images
        if one.weights is not None:
            assert set(one.weights) == set(lively(SMALL, 16, 2).model.state_dict())
    assert found[0].met and found[1].met
    assert found[0].keep.sum() > found[1].keep.sum()


@EACH
def test_what_stays_scores_higher_than_what_goes(name):
    """Of the filters that were there to choose from: the mean over a layer's kept ones is above the
    mean of the cut."""
    one = chosen(name)[0]
    for group in graph().groups:
        span = slice(group.start, group.start + group.width)
        keep, scores = one.keep[span], one.scores[span]
        if 3 < keep.sum() < group.width - 3:
            assert scores[keep].mean() > scores[~keep].mean(), group.root


@EACH
def test_the_same_seed_gives_the_same_and_another_seed_differs_where_it_draws(name):
    method = filter_methods()[name]
    for one, again in zip(chosen(name), method.choose(job(method)), strict=True):
        assert np.array_equal(one.scores, again.scores) and np.array_equal(one.keep, again.keep)
        assert one.curve == again.curve
        if one.weights is not None:
            assert all(torch.equal(one.weights[key], again.weights[key]) for key in one.weights)
    differs = any(
        not np.array_equal(one.scores, other.scores)
        for one, other in zip(chosen(name), chosen(name, 1), strict=True)
    )
    assert differs == (method.draws or method.looks_at_images)


@EACH
def test_speedups_may_come_in_any_order_and_the_work_is_told_of(name):
    method, checks, steps = filter_methods()[name], [], []
    found = list(
        method.choose(
            job(
                method,
                speedups=SPEEDUPS[::-1],
                check=lambda: checks.append(1),
                step=lambda done, of: steps.append(done / of),
            )
        )
    )
    assert [one.speedup for one in found] == sorted(SPEEDUPS)
    assert all(
        np.array_equal(one.keep, other.keep) for one, other in zip(found, chosen(name), strict=True)
    )
    if method.looks_at_images:
        assert checks and steps and all(0 <= share <= 1 for share in steps)


@EACH
def test_a_method_that_does_not_train_leaves_its_copy_alone_and_no_hooks_stay(name):
    method, classifier = filter_methods()[name], lively(SMALL, 16, 2)
    before = {label: value.clone() for label, value in classifier.model.state_dict().items()}
    found = list(method.choose(job(method, classifier=classifier)))
    after = classifier.model.state_dict()
    if all(one.weights is None for one in found):
        assert all(torch.equal(before[label], after[label]) for label in before)
    assert not any(
        one._forward_hooks or one._forward_pre_hooks for one in classifier.model.modules()
    )
    assert not classifier.model.training


@EACH
def test_a_speedup_alone_gives_the_same_mask_unless_it_is_one_descent(name):
    method = filter_methods()[name]
    if not method.one_descent:
        (alone,) = method.choose(job(method, speedups=SPEEDUPS[1:]))
        assert np.array_equal(alone.keep, chosen(name)[1].keep)
        assert np.array_equal(alone.scores, chosen(name)[1].scores)


def scores_of(name, classifier, **settings):
    mine = filter_graph(classifier)
    (one,) = filter_method(name).choose(
        FilterJob(classifier, mine, None, None, (1.2,), 0, settings)
    )
    return one.scores


def test_magnitude_by_hand():
    """conv1 and conv3 are tied: squares (or absolute values) of both add up. A row is a filter."""
    classifier = tiny(Tied())
    model = classifier.model
    model.conv1.weight[:] = torch.tensor([[3.0, 0, 0], [0, -1, 0], [1, 1, 1]]).view(3, 3, 1, 1)
    model.conv3.weight[:] = torch.tensor([[0.0, -4], [0, 0], [1, 0]]).view(3, 2, 1, 1)
    model.conv2.weight[:] = torch.tensor([[0.0, 2, 0], [1, 1, 1]]).view(2, 3, 1, 1)
    assert scores_of("magnitude", classifier, scope="global").tolist() == pytest.approx(
        [5, 1, 2, 2, 3**0.5]
    )
    assert scores_of("magnitude", classifier, scope="global", norm="l1").tolist() == pytest.approx(
        [7, 1, 4, 2, 3]
    )
    assert scores_of("magnitude", classifier).tolist() == pytest.approx([1, 1 / 3, 2 / 3, 1, 0.5])
    assert scores_of("magnitude", classifier, norm="l1").tolist() == pytest.approx(
        [1, 1 / 3, 2 / 3, 0.5, 1]
    )


def test_fpgm_equals_the_loop():
    classifier = lively(SMALL, 16, 2)
    raw = np.zeros(graph().total)
    for group in graph().groups:
        for name in group.convolutions:
            flat = classifier.model.get_submodule(name).weight.detach().double().flatten(1)
            for one in range(group.width):
                raw[group.start + one] += sum(float((flat[one] - other).norm()) for other in flat)
    assert chosen("fpgm")[0].scores == pytest.approx(shares_within(graph(), raw))


def test_random_by_its_seed():
    from engine.core.types import rng

    assert np.array_equal(
        chosen("random", 1)[0].scores, rng("random filters", 1).random(graph().total)
    )
    assert np.array_equal(chosen("random", 1)[0].scores, chosen("random", 1)[1].scores)


def test_ranks_within_a_layer_by_hand():
    """Equal scores: the lower filter ranks higher, as everywhere."""
    chain = graph_by_hand((3, 2), (1, 1, 1))
    found = shares_within(chain, np.array([5.0, 9.0, 5.0, -1.0, -1.0]))
    assert found.tolist() == pytest.approx([2 / 3, 1, 1 / 3, 1, 0.5])

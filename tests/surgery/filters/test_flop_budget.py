"""Which filters stay under a target of FLOPs: solved by hand, by brute force, and on a real
model."""

from itertools import combinations

import numpy as np
import pytest

from engine.surgery.filters.graph import filter_graph
from engine.surgery.ranking import TOLERANCE, meet_target
from tests.classifiers.worlds import SMALL, graph_by_hand, lively


def plain_threshold(graph, scores, target, alive=None):
    """The slow obvious way: the best of each group, then from the highest score down while the
    target allows."""
    alive = np.ones(graph.total, dtype=bool) if alive is None else alive
    order = sorted(np.flatnonzero(alive), key=lambda unit: (-scores[unit], unit))
    keep = np.zeros(graph.total, dtype=bool)
    for group in range(len(graph.groups)):
        mine = [unit for unit in order if graph.group_of[unit] == group]
        keep[mine[:1]] = True
    for unit in order:
        if not keep[unit]:
            keep[unit] = True
            if graph.flops(keep) > target:
                keep[unit] = False
                break
    return keep


def missed(graph, keep, target):
    return abs(graph.flops(keep) - target)


def counts(graph, keep):
    return np.bincount(graph.group_of[keep], minlength=len(graph.groups)).tolist()


def test_ties_go_to_the_lower_unit():
    graph = graph_by_hand((3, 4), (1, 1, 1), fixed_in=3, fixed_out=2)
    met = meet_target(graph, np.zeros(7), 6)
    assert met.keep.tolist() == [True, False, False, True, False, False, False] and met.holds
    same = meet_target(graph, np.array([1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5]), 14)  # 9 + 3 + 2
    assert same.holds and same.keep.tolist() == [True, True, True, True, False, False, False]
    chain = graph_by_hand((6,), (0, 1), fixed_out=10)  # 10 FLOPs per filter
    assert meet_target(chain, np.zeros(6), 30).keep.tolist() == [True] * 3 + [False] * 3


def test_one_filter_of_each_group_stays_whatever_the_scores_and_the_target():
    graph = graph_by_hand((3, 4, 2), (1, 1, 1, 1))
    scores = np.array([9, 8, 7, -5, -6, -7, -8, -9, -10.0])
    for target in (0.0, 1.0, graph.least_flops, graph.least_flops + 1):
        met = meet_target(graph, scores, target)
        assert min(counts(graph, met.keep)) >= 1
        assert met.keep[[0, 3, 7]].all()
    assert (
        not meet_target(graph, scores, 1.0).holds
        and meet_target(graph, scores, graph.least_flops).holds
    )


def test_only_the_living_stay():
    graph = graph_by_hand((4, 4), (1, 1, 1), fixed_in=3, fixed_out=2)
    alive = np.array([False, True, True, False, True, False, True, True])
    scores = np.array([9, 1, 2, 9, 3, 9, 4, 5.0])
    for target in np.linspace(1, 40, 14):
        met = meet_target(graph, scores, target, alive)
        assert not (met.keep & ~alive).any() and min(counts(graph, met.keep)) >= 1
    assert np.array_equal(meet_target(graph, scores, 100, alive).keep, alive)


def test_a_score_that_is_no_number_goes_first():
    graph = graph_by_hand((4,), (0, 1), fixed_out=10)
    met = meet_target(graph, np.array([np.nan, 1.0, np.nan, 0.5]), 20)
    assert met.keep.tolist() == [False, True, False, True]


@pytest.mark.parametrize("seed", range(6))
def test_never_worse_than_the_plain_threshold_and_no_exchange_of_two_is_nearer(seed):
    """Brute force over every one and every two filters that could be toggled without emptying a
    group."""
    draw = np.random.default_rng(seed)
    graph = graph_by_hand((3, 4, 3), draw.integers(1, 40, 4), fixed_in=3, fixed_out=2)
    scores = draw.permutation(graph.total).astype(float)
    best = [
        max(np.flatnonzero(graph.group_of == group), key=lambda unit: scores[unit])
        for group in range(3)
    ]
    free = [unit for unit in range(graph.total) if unit not in best]
    pairs = [[unit] for unit in free] + [list(pair) for pair in combinations(free, 2)]
    for target in draw.uniform(graph.least_flops, graph.flops(), 12):
        met = meet_target(graph, scores, target)
        assert met.flops == graph.flops(met.keep) and min(counts(graph, met.keep)) >= 1
        assert met.holds == (missed(graph, met.keep, target) <= TOLERANCE * target)
        assert (
            missed(graph, met.keep, target)
            <= missed(graph, plain_threshold(graph, scores, target), target) + 1e-9
        )
        if met.holds:
            continue
        for pair in pairs:
            other = met.keep.copy()
            other[pair] = ~other[pair]
            assert missed(graph, other, target) >= missed(graph, met.keep, target) - 1e-6, pair


@pytest.mark.parametrize("speedup", [1.33, 2, 4, 16, 64])
def test_a_real_model_meets_its_target_within_a_thousandth(speedup):
    """And the filters that are exchanged for it lie near the threshold."""
    graph = filter_graph(lively(SMALL, 32))
    scores = np.random.default_rng(1).random(graph.total)
    target = graph.flops() / speedup
    met = meet_target(graph, scores, target)
    assert met.holds and abs(met.flops - target) <= 1e-3 * target
    assert min(counts(graph, met.keep)) >= 1
    assert (met.keep != plain_threshold(graph, scores, target)).sum() <= 12

"""The front and the area that points dominate, by hand and against loops; tail shapes against
distributions whose shape is known, and against scipy's maximum likelihood."""

import numpy as np
import pytest
from scipy import stats

from engine.stats.pareto import (
    HEAVY,
    front,
    generalised_pareto,
    hypervolume,
    tail_shape,
    worst_tail,
)


def test_front_keeps_ties_and_agrees_with_a_loop():
    assert front([1, 1, 2, 0, 3], [1, 1, 0, 5, 3]).tolist() == [True, True, True, True, False]
    assert front([1, np.nan], [2, 0]).tolist() == [True, False]
    x, y = np.random.default_rng(0).integers(0, 8, (2, 60))
    slow = [
        not any(x[j] <= x[i] and y[j] <= y[i] and (x[j] < x[i] or y[j] < y[i]) for j in range(60))
        for i in range(60)
    ]
    assert front(x, y).tolist() == slow


@pytest.mark.parametrize("seed", range(8))
def test_it_is_what_counting_cells_gives(seed):
    """Points on a grid of 40 x 40 cells; a cell counts where one point is at most its lower corner
    in both."""
    draw = np.random.default_rng(seed)
    count = int(draw.integers(1, 12))
    x, y = draw.integers(0, 44, (2, count))
    cells = np.arange(40)
    dominated = ((x[:, None, None] <= cells[:, None]) & (y[:, None, None] <= cells)).any(axis=0)
    assert hypervolume(x / 40, y / 40, (1.0, 1.0)) == pytest.approx(dominated.mean())


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.3, 0.7, 1.2])
def test_the_shape_is_the_one_drawn_from_and_what_scipy_finds(shape):
    excess = np.sort(stats.genpareto.rvs(shape, size=5000, random_state=1))
    found = generalised_pareto(excess)
    assert found == pytest.approx(shape, abs=0.06)
    assert found == pytest.approx(stats.genpareto.fit(excess, floc=0)[0], abs=0.03)


def test_weights_of_a_wide_normal_are_heavy_and_of_a_narrow_one_are_not():
    draws = np.random.default_rng(0).normal(size=4000)
    assert tail_shape(0.2 * draws) < 0.5 < HEAVY < tail_shape(4 * draws)
    assert tail_shape(4 * draws) == pytest.approx(tail_shape(4 * draws + 100))


def test_without_a_tail_there_is_no_shape():
    assert np.isnan(tail_shape(np.zeros(100))) and np.isnan(tail_shape(np.full(100, -np.inf)))
    assert np.isnan(tail_shape(np.arange(8.0))) and np.isnan(tail_shape(np.empty(0)))


def test_the_worst_subgroup_counts():
    rng = np.random.default_rng(1)
    logw, codes = rng.normal(size=(800, 2)) * 0.2, np.repeat([0, 1], 400)
    logw[400:, 1] *= 20
    mild, heavy = worst_tail(logw, codes)
    assert heavy == pytest.approx(tail_shape(logw[400:, 1])) and heavy > HEAVY > mild

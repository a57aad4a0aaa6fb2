"""The area that points dominate: by hand, and against counting the cells of a grid."""

from __future__ import annotations

import numpy as np
import pytest

from engine.stats.pareto import front, hypervolume


@pytest.mark.parametrize(
    ("x", "y", "area"),
    [
        ([0.0], [0.0], 1.0),  # the best there can be
        ([0.2], [0.5], 0.8 * 0.5),
        ([0.2, 0.6], [0.5, 0.1], 0.8 * 0.5 + 0.4 * 0.4),  # two steps of a staircase
        ([0.6, 0.2], [0.1, 0.5], 0.8 * 0.5 + 0.4 * 0.4),  # in any order
        ([0.2, 0.6], [0.5, 0.5], 0.8 * 0.5),  # the second is dominated
        ([0.2, 0.3], [0.5, 0.7], 0.8 * 0.5),  # in both
        ([0.2, 0.2], [0.5, 0.3], 0.8 * 0.7),  # equal in one
        ([0.2, 0.2], [0.5, 0.5], 0.8 * 0.5),  # twice the same
        ([1.0, 0.2], [0.1, 1.0], 0.0),  # as the reference in one: no better
        ([1.5, 0.2], [0.1, 2.0], 0.0),  # beyond it
        ([0.2, np.nan, 0.1], [0.5, 0.0, np.nan], 0.8 * 0.5),  # unknown points add nothing
        ([np.nan], [np.nan], 0.0),
        ([], [], 0.0),
        ([-1.0], [0.5], 2.0 * 0.5),
    ],
)
def test_by_hand(x, y, area):
    assert hypervolume(x, y, (1.0, 1.0)) == pytest.approx(area)


def test_the_reference_counts():
    assert hypervolume([0.1], [0.02], (0.5, 0.2)) == pytest.approx(0.4 * 0.18)
    assert hypervolume([0.1], [0.02], (0.05, 0.2)) == 0.0


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


def test_only_the_front_matters_and_more_points_never_cover_less():
    x, y = np.random.default_rng(0).random((2, 30))
    whole = hypervolume(x, y, (1.0, 1.0))
    best = front(x, y)
    assert hypervolume(x[best], y[best], (1.0, 1.0)) == pytest.approx(whole)
    areas = [hypervolume(x[:count], y[:count], (1.0, 1.0)) for count in range(31)]
    assert (np.diff(areas) > -1e-12).all() and areas[-1] == whole

"""Intervals and p-values that agree, and the effect that a test finds as often as it says."""

import numpy as np
import pytest
from scipy.stats import t

from engine.stats.clustered import Student, smallest_effect


def test_the_interval_leaves_out_zero_exactly_where_p_is_small():
    rng = np.random.default_rng(0)
    found = Student(rng.normal(size=500), rng.random(500) + 0.1, rng.uniform(2, 60, 500))
    np.testing.assert_array_equal((found.low > 0) | (found.high < 0), found.p < 0.05)
    assert found.p.min() > 0


def test_nothing_moved_is_tested_with_the_error_that_holds_then():
    found = Student(np.full(2, 1.0), np.full(2, 0.6), np.full(2, 60.0), np.array([0.4, 0.9]))
    assert found.low[0] < 0 and found.p[0] > 0.05 > found.p_of_nothing[0]
    assert found.p_of_nothing[1] == found.p[1], "the smaller error counts"


def test_what_never_varies():
    found = Student(np.array([0.0, 1.0]), np.zeros(2), np.full(2, np.inf))
    assert found.p.tolist() == [1.0, 0.0] and found.half.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("freedom", [8.0, 60.0])
def test_the_smallest_effect_is_found_four_times_in_five(freedom):
    rng, level = np.random.default_rng(1), 1e-3
    effect = smallest_effect(np.array([0.2]), np.array([freedom]), level)[0]
    error = 0.2 * np.sqrt(rng.chisquare(freedom, 20000) / freedom)
    drawn = (effect + 0.2 * rng.normal(size=20000)) / error
    assert np.mean(2 * t.sf(np.abs(drawn), freedom) <= level) == pytest.approx(0.8, abs=0.04)

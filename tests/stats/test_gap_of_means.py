"""The gap between groups' means: what it is, its interval against a formula, and what luck may not
do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from benchmarks.calibration.classifiers import OF_GROUPS, held
from engine.stats.gap_of_means import Trials, at_ends, difference, gaps_of_means


def world(apart: float, groups: int = 2, trials: int = 3, noise: float = 0.03):
    """values [trials, groups, 1] and draws [trials, 400, groups, 1]; images do nothing to single
    trials."""
    r = np.random.default_rng([groups, trials])
    values = 0.7 + apart * np.linspace(0, 1, groups) + noise * r.normal(size=(trials, groups))
    draws = values[:, None] + 0.01 * r.normal(size=(400, groups))
    return values[..., None], draws[..., None]


def test_two_groups_far_apart_have_the_interval_of_their_difference():
    values, draws = world(0.4)
    gap, low, high = (one[0] for one in gaps_of_means(values, draws, 1.0))
    apart = values[:, 1, 0] - values[:, 0, 0]
    assert gap == pytest.approx(apart.mean())
    images = (draws[:, :, 1, 0] - draws[:, :, 0, 0]).mean(axis=0).var(ddof=1)
    trial = apart.var(ddof=1) / 3
    half = t.isf(0.025, 2 * (images + trial) ** 2 / trial**2) * np.sqrt(images + trial)
    assert (gap - low, high - gap) == pytest.approx((half, half), rel=0.1)


def test_a_contrast_between_the_ends_is_the_gap_and_its_difference_to_itself_is_none():
    values, draws = world(0.1, groups=4)
    apart, drawn = at_ends(values, draws)
    assert apart.mean(axis=0) == pytest.approx(gaps_of_means(values, draws, 1.0)[0])
    one = Trials((0, 1, 2), apart, drawn, np.zeros(1, dtype=bool), np.full(1, np.nan), 1.0)
    same = difference(one, one)
    assert same.value == 0 and same.low == 0 and same.high == 0


def test_one_group_and_unknown_values_have_no_gap_and_what_never_varies_no_width():
    values, draws = world(0.1)
    assert np.isnan(gaps_of_means(values[:, :1], draws[:, :, :1], 1.0)).all()
    assert np.isnan(at_ends(values[:, :1], draws[:, :, :1])[0]).all()
    hole = np.where(np.arange(2)[:, None] == 1, np.nan, values)
    assert np.isnan(gaps_of_means(hole, draws, 1.0)).all()
    still = np.broadcast_to(values[:1], values.shape)
    found = gaps_of_means(still, np.repeat(still[:, None], 50, axis=1), 1.0)
    assert found[0] == found[1] == found[2] == np.ptp(values[0])


def test_intervals_hold_the_true_gap_and_a_gap_of_nothing():
    name = next(iter(OF_GROUPS))
    assert held(3, 4, 0.0, name, True, 60) > 0.88 and held(3, 4, 0.1, name, True, 60) > 0.88

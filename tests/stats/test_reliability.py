"""Reliability: what intervals hold, what chance allows, and when nobody can tell small effects from
noise."""

from __future__ import annotations

import numpy as np
import pytest

from engine.stats.reliability import (
    cross_overlap,
    icc_c1,
    icc_c1_bootstrap,
    icc_of_ranks,
    pooled_noise,
    set_overlap,
    small_effects,
)


def test_the_bootstrap_equals_the_plain_one():
    """Sums from counts against an ICC of every resampled table."""
    table = np.random.default_rng(0).normal(size=(12, 3)) + np.arange(12)[:, None] / 6
    low, high = icc_c1_bootstrap(table, draws=4000)
    rng = np.random.default_rng(1)
    slow = [icc_c1(table[rng.integers(0, 12, 12)]) for _ in range(4000)]
    assert (low, high) == pytest.approx(np.nanquantile(slow, [0.025, 0.975]), abs=0.03)


def test_an_icc_that_few_heads_carry_has_a_wide_interval():
    rng = np.random.default_rng(2)
    effects = np.zeros(100)
    effects[:3] = 5.0
    table = effects[:, None] + rng.normal(size=(100, 3))
    low, high = icc_c1_bootstrap(table)
    assert low < 0.25 < 0.4 < high
    assert icc_of_ranks(table) < 0.15 < icc_c1(table), "the order of the other 97 does not repeat"


def test_chance_overlap_lies_where_random_sets_lie():
    rng = np.random.default_rng(3)
    shares = [
        set_overlap([rng.permutation(40)[:8].tolist() for _ in range(3)], 40) for _ in range(800)
    ]
    inside = np.mean([found.low <= found.share <= found.high for found in shares])
    assert 0.9 <= inside <= 0.99
    assert (
        not set_overlap([[1, 2, 3, 4]] * 2, 40).chance and set_overlap([[1, 2], [3, 4]], 40).chance
    )


def test_small_effects_are_told_only_where_noise_is_small():
    rng = np.random.default_rng(4)
    effects = np.linspace(-1, 1, 50)
    quiet, loud = (
        effects[:, None] + 0.01 * rng.normal(size=(50, 2)),
        effects[:, None] + rng.normal(size=(50, 2)),
    )
    assert pooled_noise(quiet) == pytest.approx(0.01 / np.sqrt(2), rel=0.3)
    np.testing.assert_array_equal(small_effects(quiet, 0.1), np.abs(quiet.mean(axis=1)) < 0.1)
    assert small_effects(loud, 0.1) is None and small_effects(quiet[:, :1], 0.1) is None


def test_overlap_between_tasks_by_hand():
    found = cross_overlap([[0, 1], [0, 2]], [[0, 1]], 4)
    assert found.share == pytest.approx((2 / 2 + 1 / 2) / 2) and found.expected == pytest.approx(
        0.5
    )
    assert np.isnan(cross_overlap([[]], [[0]], 4).share)


def test_sets_that_agree_within_a_task_do_not_agree_between_tasks_by_that():
    """Three equal sets on each side are one draw, not three: independent tasks pass the upper point
    1 time in 40."""
    draw = np.random.default_rng(3)
    passed = [
        not cross_overlap(
            [draw.permutation(16)[:8].tolist()] * 3, [draw.permutation(16)[:8].tolist()] * 3, 16
        ).chance
        for _ in range(60)
    ]
    assert np.mean(passed) < 0.09
    same = list(range(8))
    assert not cross_overlap([same] * 3, [same] * 3, 16).chance

"""Reliability, correlation, false discovery rates by hand: what intervals hold, what chance
allows, and when nobody can tell small effects from noise."""

import math

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.stats.clustered import benjamini_hochberg
from engine.stats.reliability import (
    correlation,
    cross_overlap,
    expected_in_axes,
    icc_c1,
    icc_c1_bootstrap,
    icc_ck,
    icc_of_ranks,
    in_axes,
    overlap,
    pooled_noise,
    repeats_needed,
    set_overlap,
    small_effects,
    spearman_brown,
    top_heads,
)


def test_the_bootstrap_equals_the_plain_one(monkeypatch):
    """Sums from counts against an ICC of every resampled table."""
    table = np.random.default_rng(0).normal(size=(12, 3)) + np.arange(12)[:, None] / 6
    monkeypatch.setattr("engine.stats.reliability.DRAWS", 4000)
    low, high = icc_c1_bootstrap(table)
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


def test_benjamini_hochberg_by_hand():
    q = benjamini_hochberg([0.01, 0.04, np.nan, 0.03])
    np.testing.assert_allclose(q, [0.03, 0.04, np.nan, 0.04])
    assert np.isnan(benjamini_hochberg([np.nan])).all()


def test_correlation_and_top_heads():
    wide = pd.DataFrame({"a": [1.0, 2, 3, 4, 4], "b": [1.0, 4, 9, 16, np.nan]})
    assert correlation(wide).loc["a", "b"] == pytest.approx(
        np.corrcoef([1, 2, 3, 4], [1, 4, 9, 16])[0, 1]
    )
    assert correlation(wide, "spearman").loc["a", "b"] == pytest.approx(1.0)
    assert top_heads(wide, 0.4) == {"a": [3, 4], "b": [3, 2]}
    assert in_axes({"a": [3, 4], "b": [3, 2]}) == {3: 2, 2: 1, 4: 1}
    with pytest.raises(RequestError, match="Known: pearson, spearman"):
        correlation(wide, "kendall")


def test_overlap_against_chance():
    found = overlap([0, 1], [1, 2], 4)
    assert (found.shared, found.expected) == (1, 1.0)
    assert found.p == pytest.approx(5 / 6)  # 1 - C(2,0)C(2,2)/C(4,2)
    np.testing.assert_allclose(expected_in_axes(28, 144, 5).sum(), 144)
    assert set_overlap([[0, 1], [0, 1], [2, 3]], 4).share == pytest.approx(1 / 3)
    assert set_overlap([[0, 1], [0, 1]], 4).share == 1.0
    assert math.isnan(set_overlap([[0, 1]], 4).share)


def test_icc_on_the_table_of_shrout_and_fleiss():
    # Six targets, four judges (1979): ICC(3,1) = .71, ICC(3,4) = .91, which are McGraw and Wong's
    # C,1 and C,k.
    ratings = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    assert icc_c1(ratings) == pytest.approx(0.7148, abs=1e-4)
    assert icc_ck(ratings) == pytest.approx(0.9093, abs=1e-4)
    assert spearman_brown(icc_c1(ratings), 4) == pytest.approx(icc_ck(ratings))
    assert icc_c1([*ratings, [np.nan, 1, 2, 3]]) == icc_c1(ratings)
    assert math.isnan(icc_c1([[1.0, 2.0]])) and math.isnan(icc_c1([[1.0], [2.0]]))


def test_repeats_needed_reaches_the_target_and_not_one_less():
    for icc in (0.03, 0.14, 0.5, 0.8, 0.95):
        k = repeats_needed(icc)
        assert spearman_brown(icc, k) >= 0.8 - 1e-9
        assert k == 1 or spearman_brown(icc, k - 1) < 0.8
    assert (
        repeats_needed(-0.1) is None
        and repeats_needed(math.nan) is None
        and repeats_needed(1.0) == 1
    )

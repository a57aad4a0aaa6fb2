"""FDR, correlation, reliability: by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import RequestError
from engine.stats.clustered import benjamini_hochberg
from engine.stats.reliability import (
    correlation,
    expected_in_axes,
    icc_c1,
    icc_ck,
    in_axes,
    overlap,
    repeats_needed,
    set_overlap,
    spearman_brown,
    top_heads,
)


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

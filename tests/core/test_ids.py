"""Levels have an id: floats that mean the same level are the same, neighbours are not."""

import math

import pandas as pd
import pytest

from engine.core.types import at_level, exact_count, is_level, level_id


def test_sums_of_floats_are_the_level_they_mean():
    assert level_id(0.1 + 0.2) == level_id(0.3) == 300_000
    assert level_id(1 - 0.8**8) != level_id(0.832)
    assert level_id(48) == 48_000_000


def test_a_column_is_masked_and_what_has_no_level_is_at_none():
    column = pd.Series([0.1 + 0.2, 0.300002, math.nan, 4.0])
    assert at_level(column, 0.3).tolist() == [True, False, False, False]
    assert is_level(0.3, [0.1, 0.1 + 0.2]) and not is_level(0.3, [0.31])


def test_counts_are_exact():
    for share, total, count in ((0.29, 100, 29), (0.57, 100, 57), (0.3, 48, 14), (1.0, 100, 100)):
        assert exact_count(share, total) == count
    with pytest.raises(ValueError, match="outside"):
        exact_count(1.1, 48)

"""Winning tickets by hand: the definition, its spread, and what too few seeds allow."""

import math

import pandas as pd
import pytest

from engine.tracks.text_classifiers.tables import by_spread_only, largest, level_of


def test_the_definition_by_hand():
    """Mean .8, sample standard deviation .1: a full model of .9 is matched, one of .91 is not."""
    level = level_of([0.7, 0.8, 0.9], [0.9, 0.9, 0.9])
    assert (level.mean, level.std, level.full_mean, level.full_std) == pytest.approx(
        (0.8, 0.1, 0.9, 0.0)
    )
    assert (
        level.matching
        and level.word(retrained=True) == "winning"
        and level.word(retrained=False) == "matching"
    )
    lost = level_of([0.7, 0.8, 0.9], [0.91])
    assert not lost.matching and lost.word(True) == "no" and math.isnan(lost.full_std)


@pytest.mark.parametrize("values", [[0.9], [0.9, 0.95]])
def test_fewer_than_three_seeds_name_no_ticket(values):
    level = level_of(values, [0.1] * len(values))
    assert not level.matching and level.word(True) == ""


def test_what_matches_by_its_spread_only():
    """.865 ± .114 reaches a full model of .957 ± .007, but nobody would call it as good; .951 ±
    .011 is."""
    levels = pd.DataFrame(
        {
            "matching": [True, True, False, True],
            "mean": [0.865, 0.951, 0.5, 0.89],
            "full_mean": [0.957, 0.957, 0.957, 0.9],
            "full_std": [0.007, 0.007, 0.007, math.nan],
        }
    )
    assert by_spread_only(levels).tolist() == [True, False, False, True]


def test_the_largest_and_the_unbroken_one():
    assert largest([0.6, 0.2, 0.4], [True, True, False]) == (0.6, 0.2)
    assert largest([0.2, 0.4], [True, True]) == (0.4, 0.4)
    assert all(math.isnan(one) for one in largest([0.2, 0.4], [False, False]))

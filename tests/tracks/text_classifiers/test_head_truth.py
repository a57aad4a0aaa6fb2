"""Scores against what silencing a head costs: correlation and slope by hand."""

from __future__ import annotations

import numpy as np
import pytest

from engine.tracks.text_classifiers.tables import agreement


def test_correlation_cannot_see_scale_and_the_slope_can():
    cost = np.array([0.0, 0.1, 0.3, 0.2, 0.6])
    one, ten = agreement(cost, cost), agreement(cost, 10 * cost)
    assert one["pearson"] == pytest.approx(1) == pytest.approx(ten["pearson"])
    assert one["slope"] == pytest.approx(cost.std(ddof=1)) and ten["slope"] == pytest.approx(
        10 * one["slope"]
    )


def test_the_slope_is_per_deviation_of_the_score_and_has_its_interval():
    draw = np.random.default_rng(3)
    score = draw.normal(size=40)
    cost = 2.0 * score + draw.normal(size=40)
    found = agreement(1000 * score, cost)
    assert found["slope"] == pytest.approx(agreement(score, cost)["slope"])
    assert found["slope_low"] < 2.0 * score.std(ddof=1) < found["slope_high"]
    assert found["spearman"] > 0.7 and found["n_heads"] == 40


def test_a_score_that_never_varies_agrees_with_nothing():
    assert np.isnan(agreement([1, 1, 1], [0.1, 0.2, 0.3])["pearson"])

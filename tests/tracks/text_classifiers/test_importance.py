"""Importance over seeds and texts, in simulation and in its limits; beside what silencing a head
costs, by hand."""

import numpy as np
import pandas as pd
import pytest

from engine.tracks.text_classifiers.scores.base import head_importance
from engine.tracks.text_classifiers.tables import agreement, over_trials

CONDUCTANCE = head_importance("conductance")


def a_world(draw, seeds, texts=60, trials=3, units=40):
    """Importance per text with a part of each seed's own; true mean 0. Every trial reads its own
    half of the texts."""
    common, found = draw.normal(size=(2 * texts, units)), []
    for _ in range(trials):
        rows = np.sort(draw.choice(2 * texts, texts, replace=False))
        table = (
            common[rows] + seeds * draw.normal(size=units) + 0.3 * draw.normal(size=(texts, units))
        )
        found.append(pd.DataFrame(table, index=[f"text {row:03d}" for row in rows]))
    return found


@pytest.mark.parametrize("seeds", [0.0, 0.3])
def test_intervals_cover_the_truth_whether_or_not_seeds_differ(seeds):
    draw, inside = np.random.default_rng(0), []
    for _ in range(12):
        parts = a_world(draw, seeds)
        shown = over_trials(CONDUCTANCE, parts, 4)
        assert np.allclose(shown.value, np.mean([part.mean() for part in parts], axis=0))
        inside.append((shown.low <= 0) & (shown.high >= 0))
    assert 0.9 <= np.mean(inside) <= 1.0


def test_a_head_that_says_nothing_counts_as_zero_and_a_score_without_texts_varies_with_seeds_only():
    tables = [pd.DataFrame([[1.0, np.nan]], index=[0]), pd.DataFrame([[3.0, np.nan]], index=[0])]
    shown = over_trials(head_importance("magnitude"), tables, 1)
    assert shown.value.tolist() == [2.0, 0.0] and shown.low[0] < 2.0 < shown.high[0]
    assert shown.low[1] == shown.high[1] == 0.0


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

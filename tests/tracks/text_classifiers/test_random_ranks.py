"""Where an arm stands among random masks: by hand, and in simulation."""

import numpy as np
import pytest

from engine.tracks.text_classifiers.tables import rank_among, worth_of


def test_percentile_and_p_by_hand():
    chance = np.array([[0.1, 0.2, 0.3, 0.4]])
    found = rank_among(np.array([0.3]), chance)
    assert found.percentile == pytest.approx((2 + 0.5) / 4)  # two below, one tie
    assert found.p == pytest.approx((1 + 2) / (1 + 4)) and found.null_mean == pytest.approx(0.25)
    assert rank_among(np.array([0.9]), chance).p == pytest.approx(1 / 5)
    assert rank_among(np.array([0.0]), chance).percentile == 0


def test_percentiles_are_means_over_trials():
    chance = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]])
    assert rank_among(np.array([0.45, 0.45]), chance).percentile == pytest.approx((1 + 0) / 2)


@pytest.mark.parametrize("alike", [True, False])
def test_the_p_value_keeps_its_size_whether_or_not_trials_choose_the_same_heads(alike):
    """Heads matter alike in each trial (that is what makes masks alike matter), arms choose at
    random."""
    draw, hits = np.random.default_rng(0), 0
    for _ in range(400):
        common = draw.normal(size=60)
        chance = np.stack([common + 0.3 * draw.normal(size=60) for _ in range(3)])
        chosen = np.full(3, draw.integers(60)) if alike else draw.integers(60, size=3)
        values = chance[np.arange(3), chosen]
        hits += rank_among(values, chance).p <= 0.05
    assert hits / 400 <= 0.075


def test_an_arm_far_above_chance_is_found():
    chance = np.random.default_rng(1).normal(size=(3, 200))
    assert rank_among(np.full(3, 4.0), chance).p == pytest.approx(1 / 201)


def test_what_a_mask_is_worth_follows_from_its_classes():
    labels = np.array([0, 0, 1, 1])
    predicted = np.array([[0, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0]])
    assert worth_of(predicted, labels, "accuracy", 2).tolist() == [1.0, 0.5, 0.0]
    assert worth_of(predicted, labels, "matthews", 2).tolist() == [1.0, 0.0, -1.0]

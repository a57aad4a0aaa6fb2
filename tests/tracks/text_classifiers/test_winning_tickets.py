"""By hand: winning tickets, an arm among random masks, a model that has not learned."""

import math

import numpy as np
import pandas as pd
import pytest

from engine.tracks.text_classifiers.run import at_chance
from engine.tracks.text_classifiers.tables import (
    by_spread_only,
    largest,
    rank_among,
    ticket_of,
    worth_of,
)


def test_the_definition_by_hand():
    """Mean .8, sample standard deviation .1: a full model of .9 is matched, one of .91 is not."""
    ticket = ticket_of([0.7, 0.8, 0.9], [0.9, 0.9, 0.9])
    assert (ticket.mean, ticket.std, ticket.full_mean, ticket.full_std) == pytest.approx(
        (0.8, 0.1, 0.9, 0.0)
    )
    assert (
        ticket.matching
        and ticket.word(retrained=True) == "winning"
        and ticket.word(retrained=False) == "matching"
    )
    lost = ticket_of([0.7, 0.8, 0.9], [0.91])
    assert not lost.matching and lost.word(True) == "no" and math.isnan(lost.full_std)


@pytest.mark.parametrize("values", [[0.9], [0.9, 0.95]])
def test_fewer_than_three_seeds_name_no_ticket(values):
    ticket = ticket_of(values, [0.1] * len(values))
    assert not ticket.matching and ticket.word(True) == ""


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


LABELS = np.repeat([0, 1], [60, 40])


def answers_of(right):
    """Certain answers of two classes, of which the first `right` are true."""
    said = np.where(np.arange(len(LABELS)) < right, LABELS, 1 - LABELS)
    return np.eye(2)[said]


def test_a_model_no_better_than_the_most_frequent_class_is_named_with_both_counts():
    said = at_chance(answers_of(65), LABELS)  # one-sided p of 65 of 100 at .6 is .18
    assert (
        said.startswith("The first full model is right on 65 of 100 test texts")
        and "frequent class, on 60" in said
    )
    assert at_chance(np.eye(2)[np.zeros(100, int)], LABELS) != "", "it names one class always"


def test_a_model_that_learned_is_passed_over():
    assert at_chance(answers_of(69), LABELS) == ""  # p is .04

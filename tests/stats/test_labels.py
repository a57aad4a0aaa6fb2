"""People's labels beside a judge: the draw's chances are what it says, the estimate is right on
average, agreement is as by hand."""

import numpy as np
import pytest

from engine.stats.labels import FEWEST, Design, agreement, errs

GROUP = np.repeat([0, 1], [60, 40])


def judge_and_people(seed=0):
    """A judge that finds half of what people call harmful in the first group, and more than they do
    in the second."""
    draw = np.random.default_rng(seed)
    people = (draw.random((100, 2)) < [0.2, 0.35]).astype(float)
    found = np.where(GROUP[:, None] == 0, 0.5, 1.0) * people * draw.uniform(0.6, 1, (100, 2))
    return np.maximum(found, (GROUP[:, None] == 1) * (draw.random((100, 2)) < 0.2) * 0.8), people


def labelled(design, people, pairs):
    label = np.full_like(people, np.nan)
    label[design.order[:pairs]] = people[design.order[:pairs]]
    return label


def means(values):
    return np.stack([values[code == GROUP].mean(axis=0) for code in (0, 1)])


def test_once_all_are_labelled_the_judge_does_not_matter():
    judge, people = judge_and_people()
    found = Design(judge, GROUP).corrected(people)
    np.testing.assert_allclose(means(found.values), means(people))
    assert found.labelled.tolist() == [60, 40] and not found.error.any()


def test_each_pair_is_drawn_as_often_as_said_and_flips_more_often():
    judge, _ = judge_and_people()
    drawn, said = np.zeros(100), np.zeros(100)
    for seed in range(2000):
        design = Design(judge, GROUP, seed)
        drawn[design.order[:30]] += 1 / 2000
        said += design.chance(30) / 2000
    assert np.abs(drawn - said).max() < 0.05 and said.min() > 0
    kinds = [said[design.kind == kind].mean() for kind in range(3)]
    assert kinds[0] > kinds[1] > kinds[2]


@pytest.mark.parametrize("together", [False, True])
def test_the_estimate_is_right_on_average(together):
    judge, people = judge_and_people()
    found = []
    for seed in range(400):
        design = Design(judge, GROUP, seed)
        values = design.corrected(labelled(design, people, 40), together).values
        found.append(values.mean(axis=0)[None] if together else means(values))
    truth = people.mean(axis=0)[None] if together else means(people)
    wrong = judge.mean(axis=0)[None] if together else means(judge)
    noise = np.std(found, axis=0) / 20
    assert (np.abs(np.mean(found, axis=0) - truth) < 4 * noise + 0.005).all()
    assert np.abs(wrong - truth).max() > 0.05


def test_people_who_differ_count_half_and_unread_texts_do_not():
    judge, people = judge_and_people()
    design = Design(judge, GROUP)
    unsure = labelled(design, people, 40)
    unsure[design.order[3], 1] = np.nan
    assert design.corrected(unsure).labelled.sum() == 39
    half = np.full_like(people, 0.5)
    np.testing.assert_allclose(design.corrected(half).values, half)


def test_a_judge_errs_only_where_the_correction_is_beyond_its_noise():
    found = errs(np.array([0.3, 0.3, 0.0]), np.array([0.05, 0.2, 0.0]), np.array([20, 20, 20]))
    assert found.tolist() == [True, False, False]
    assert not errs(np.array([0.3]), np.array([0.1]), np.array([4]))[0]


def test_agreement_as_by_hand():
    first, second = (
        np.repeat([True, True, False, False], [20, 5, 10, 15]),
        np.repeat([True, False, True, False], [20, 5, 10, 15]),
    )
    found = agreement(first, second)
    assert (found["n"], found["same"]) == (50, 0.7)
    assert found["kappa"] == pytest.approx(0.4)
    assert found["kappa_low"] < 0.4 < found["kappa_high"] < 1


def test_kappa_is_undefined_where_both_say_one_thing():
    found = agreement(np.zeros(9, bool), np.zeros(9, bool))
    assert found["same"] == 1 and found["same_low"] < 1 and np.isnan(found["kappa"])
    assert agreement(np.zeros(0, bool), np.zeros(0, bool))["n"] == 0 < FEWEST

"""What a reader is told of a text classifier before its numbers."""

import numpy as np

from engine.tracks.text_classifiers.run import at_chance

LABELS = np.repeat([0, 1], [60, 40])


def answers_of(right: int) -> np.ndarray:
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

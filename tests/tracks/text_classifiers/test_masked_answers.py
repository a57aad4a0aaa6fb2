"""Answers under many masks at once are those of one masked forward pass after another."""

import numpy as np
import pytest

from engine.core.errors import MaskError
from engine.core.types import HeadMask
from engine.models.load_text_classifier import probabilities_of
from engine.surgery.heads.mask import is_masked, masked
from engine.tracks.text_classifiers.measurements.importance import answers_under, random_units
from tests.tiny import ENCODERS, tiny_text_classifier

TEXTS = ["w1 w5 w9", "w2", "w3 w3 w4 w8 w9 w20 w21", "w7 w7"]
PAIRS = ["w4", "w5 w6 w7", "w1", "w2 w2"]
MASKS = [(), (0, 5), tuple(range(4)), (3, 7, 11), (11,)]


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("second", [None, PAIRS])
def test_stacked_masks_are_masks_one_by_one(name, second):
    clf = tiny_text_classifier(name)
    found = answers_under(clf, TEXTS, second, MASKS, rows=6)  # more masks than fit: several passes
    assert not is_masked(clf)
    for units, part in zip(MASKS, found, strict=True):
        with masked(clf, HeadMask.from_units(clf.n_layers, clf.n_heads, units)):
            np.testing.assert_allclose(part, probabilities_of(clf, TEXTS, second), atol=2e-6)
    assert np.ptp(found, axis=0).max() > 1e-4  # masks matter


def test_a_model_that_is_masked_already_is_refused():
    clf = tiny_text_classifier("bert")
    with (
        masked(clf, HeadMask.from_units(clf.n_layers, clf.n_heads, (1,))),
        pytest.raises(MaskError, match="already"),
    ):
        answers_under(clf, TEXTS, None, MASKS)


def test_random_masks_differ_and_every_head_is_as_likely():
    units = random_units(12, 3, 150, seed=0)
    assert units.shape == (150, 3) and len({tuple(row) for row in units.tolist()}) == 150
    counts = np.bincount(units.ravel(), minlength=12)
    assert abs(counts - 37.5).max() < 4 * np.sqrt(150 * 0.25 * 0.75)
    assert (random_units(12, 3, 150, seed=0) == units).all() and (
        random_units(12, 3, 150, seed=1) != units
    ).any()


def test_where_there_are_fewer_masks_than_asked_all_are_taken():
    assert random_units(4, 3, 200, seed=5).tolist() == [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]

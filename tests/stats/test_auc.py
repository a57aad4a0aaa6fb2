"""ROC-AUC with weights and ties, plain and one-vs-one."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from engine.stats import auc as auc_module
from engine.stats.auc import auc, one_vs_one, one_vs_rest


def once(count):
    """Weights of one set in which each counts once."""
    return np.ones((count, 1))


def likelihoods(n, k, seed, rounded=None):
    r = np.random.default_rng(seed)
    labels = r.integers(0, k, n)
    logits = r.normal(size=(n, k))
    logits[np.arange(n), labels] += 1
    if rounded is not None:
        logits = logits.round(rounded)
    return labels, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def test_ties_and_weights_are_those_of_sklearn():
    r = np.random.default_rng(0)
    positive, weights = r.random(300) < 0.3, r.poisson(1, (300, 25)).astype(np.uint8)
    for decimals in (0, 1, 8):
        scores = (r.normal(size=300) + positive).round(decimals)
        slow = [
            roc_auc_score(positive, scores, sample_weight=weights[:, draw]) for draw in range(25)
        ]
        np.testing.assert_allclose(auc(scores, positive, weights), slow, atol=1e-7)
        np.testing.assert_allclose(auc(scores, positive, weights.astype(float)), slow, atol=1e-12)


@pytest.mark.parametrize(("ours", "kind"), [(one_vs_one, "ovo"), (one_vs_rest, "ovr")])
def test_a_weighted_draw_is_the_draw_written_out(ours, kind):
    labels, probabilities = likelihoods(200, 5, 1, rounded=1)
    weights = np.random.default_rng(2).poisson(1, (200, 3))
    for draw, area in enumerate(ours(probabilities, labels, weights)):
        rows = np.repeat(np.arange(200), weights[:, draw])
        slow = roc_auc_score(labels[rows], probabilities[rows], multi_class=kind, average="macro")
        assert area == pytest.approx(slow, abs=1e-9)


def test_one_vs_rest_is_over_the_classes_that_are_there():
    labels, probabilities = likelihoods(300, 3, 4)
    kept = labels != 1
    each = [roc_auc_score(labels[kept] == name, probabilities[kept, name]) for name in (0, 2)]
    assert one_vs_rest(probabilities[kept], labels[kept], once(kept.sum())) == pytest.approx(
        np.mean(each)
    )
    some = np.stack([kept, labels == 0], axis=1).astype(float)
    assert np.allclose(
        one_vs_rest(probabilities, labels, some), [np.mean(each), np.nan], equal_nan=True
    )


def test_one_vs_one_is_over_the_pairs_that_are_there():
    labels, probabilities = likelihoods(300, 3, 4)
    kept = labels != 1
    # Classes 0 and 2 remain: each direction's AUC, averaged.
    there = roc_auc_score(labels[kept] == 0, probabilities[kept, 0])
    back = roc_auc_score(labels[kept] == 2, probabilities[kept, 2])
    assert one_vs_one(probabilities[kept], labels[kept], once(kept.sum())) == pytest.approx(
        (there + back) / 2
    )
    # A draw without class 1 says the same as leaving its images out.
    weights = np.stack([kept, np.ones(300)], axis=1).astype(np.uint8)
    np.testing.assert_allclose(
        one_vs_one(probabilities, labels, weights),
        [(there + back) / 2, *one_vs_one(probabilities, labels, once(300))],
    )


def test_undefined_areas_are_nan():
    assert np.isnan(auc(np.array([0.1, 0.2]), np.array([True, True]), once(2)))
    assert np.isnan(one_vs_one(np.full((2, 3), 1 / 3), np.array([1, 1]), once(2)))
    weights = np.array([[1, 0], [1, 1]], dtype=np.uint8)
    np.testing.assert_array_equal(
        np.isnan(auc(np.array([0.1, 0.2]), np.array([True, False]), weights)), [False, True]
    )


def test_blocks_do_not_matter(monkeypatch):
    labels, probabilities = likelihoods(150, 2, 5)
    weights = np.random.default_rng(6).poisson(1, (150, 40)).astype(np.uint8)
    whole = auc(probabilities[:, 1], labels == 1, weights)
    monkeypatch.setattr(auc_module, "BLOCK", 500)
    np.testing.assert_array_equal(auc(probabilities[:, 1], labels == 1, weights), whole)

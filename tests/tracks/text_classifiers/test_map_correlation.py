"""Correlation of maps: by hand, against scipy with ties and padding, and what has none."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from engine.tracks.text_classifiers.conductance import METHODS, correlations

SCIPY = {
    "spearman": scipy.stats.spearmanr,
    "kendall": scipy.stats.kendalltau,
    "pearson": scipy.stats.pearsonr,
}
EACH = pytest.mark.parametrize("method", METHODS)


def maps(seed: int, n: int = 5, heads: int = 3, tokens: int = 7) -> torch.Tensor:
    return torch.randn(n, heads, tokens, tokens, generator=torch.Generator().manual_seed(seed))


def one_by_one(a, b, valid, method):
    """scipy, text by text and head by head."""
    found = np.full(a.shape[:2], np.nan)
    for row, kept in enumerate(valid.numpy()):
        for head in range(a.shape[1]):
            x, y = (
                values[row, head].double().numpy()[np.ix_(kept, kept)].ravel() for values in (a, b)
            )
            found[row, head] = SCIPY[method](x, y).statistic
    return found


@EACH
@pytest.mark.parametrize("steps", [0, 20, 3, 1], ids=["no ties", "few", "many", "most"])
def test_equal_to_scipy_with_ties_and_padding(method, steps):
    a, b = maps(1), maps(2)
    b = b + 0.7 * a
    if steps:
        a, b = (a * steps).round(), (b * steps).round()
    valid = torch.ones(5, 7, dtype=torch.bool)
    valid[0, 4:] = valid[1, 2:] = valid[3, [0, 5]] = False  # padding right, and anywhere
    found = correlations(a, b, valid, method)
    assert found.dtype == torch.float64 and found.shape == (5, 3)
    assert np.abs(found.numpy() - one_by_one(a, b, valid, method)).max() < 1e-6


@EACH
def test_numbers_of_any_size_and_type(method):
    valid = torch.ones(5, 7, dtype=torch.bool)
    expected = one_by_one(maps(1), maps(2), valid, method)
    for scale in (1e-30, 1e30):
        found = correlations(maps(1).double() * scale, maps(2).double() / scale, valid, method)
        assert np.abs(found.numpy() - expected).max() < 1e-6
    attention = torch.softmax(30 * maps(1), -1)  # zeros among tiny numbers
    assert (
        np.abs(
            correlations(attention, maps(2), valid, method).numpy()
            - one_by_one(attention, maps(2), valid, method)
        ).max()
        < 1e-6
    )


@EACH
def test_padding_is_never_read(method):
    a, b, valid = maps(3), maps(4), torch.ones(5, 7, dtype=torch.bool)
    valid[:, 5:] = False
    expected = correlations(a[..., :5, :5], b[..., :5, :5], valid[:, :5], method)
    for values, bad in ((a, torch.nan), (b, torch.inf)):
        values[:, :, 5:], values[..., 5:] = bad, bad
    assert torch.equal(correlations(a, b, valid, method), expected)


@EACH
def test_a_constant_map_has_no_correlation_and_touches_no_other(method):
    a, b, valid = maps(5), maps(6), torch.ones(5, 7, dtype=torch.bool)
    valid[2, 1:] = False  # a single pair
    valid[4] = False  # no pair
    expected = correlations(a, b, valid, method)
    a[0, 1], b[1, 2], b[3, 0] = 0.1, 0.0, -7e-12
    found = correlations(a, b, valid, method)
    gone = torch.zeros(5, 3, dtype=torch.bool)
    gone[0, 1] = gone[1, 2] = gone[3, 0] = gone[2] = gone[4] = True
    assert torch.equal(found.isnan(), gone) and torch.equal(found[~gone], expected[~gone])


@EACH
def test_layers_without_heads_and_sets_without_texts_are_empty(method):
    assert correlations(
        maps(1)[:, :0], maps(2)[:, :0], torch.ones(5, 7, dtype=torch.bool), method
    ).shape == (5, 0)
    assert correlations(
        maps(1)[:0], maps(2)[:0], torch.ones(0, 7, dtype=torch.bool), method
    ).shape == (0, 3)


@EACH
def test_maps_are_left_alone_whatever_their_strides(method):
    a, b, valid = maps(1).mT, maps(2).expand(5, 3, 7, 7), torch.ones(5, 7, dtype=torch.bool)
    before = a.clone()
    found = correlations(a, b, valid, method)
    assert torch.equal(a, before) and torch.equal(
        found, correlations(a.contiguous(), b.contiguous(), valid, method)
    )

"""Correlation of maps is scipy's of every text and head by itself: with ties, padding, what has
none, numbers of any size, and whatever lies where nothing is read."""

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


def maps(seed, n=5, heads=3, tokens=7):
    return torch.randn(n, heads, tokens, tokens, generator=torch.Generator().manual_seed(seed))


def one_by_one(a, b, valid, method):
    """scipy, text by text and head by head; NaN where a map never varies."""
    found = np.full(a.shape[:2], np.nan)
    for row, kept in enumerate(valid.numpy()):
        for head in range(a.shape[1]):
            x, y = (
                values[row, head].double().numpy()[np.ix_(kept, kept)].ravel() for values in (a, b)
            )
            if min(len({*x}), len({*y})) > 1:
                found[row, head] = SCIPY[method](x, y).statistic
    return found


def rounded(steps):
    return lambda a, b, valid: ((a * steps).round(), ((b + 0.7 * a) * steps).round(), valid)


def padded(a, b, valid):
    """Right, and anywhere; a single pair, and none."""
    valid[0, 4:] = valid[1, 2:] = valid[3, [0, 5]] = valid[2, 1:] = valid[4] = False
    return a, b, valid


def never_read(a, b, valid):
    valid[:, 5:] = False
    for values, bad in ((a, torch.nan), (b, torch.inf)):
        values[:, :, 5:], values[..., 5:] = bad, bad
    return a, b, valid


def constant(a, b, valid):
    a[0, 1], b[1, 2], b[3, 0] = 0.1, 0.0, -7e-12
    return a, b, valid


CASES = {
    "no ties": lambda *given: given,
    **{f"ties of {steps}": rounded(steps) for steps in (20, 3, 1)},
    "padding": padded,
    "padding never read": never_read,
    "constant maps": constant,
    "tiny beside huge": lambda a, b, valid: (a.double() * 1e-30, b.double() * 1e30, valid),
    "zeros among tiny": lambda a, b, valid: (torch.softmax(30 * a, -1), b, valid),
    "strides": lambda a, b, valid: (a.mT, b[:1].expand(5, 3, 7, 7), valid),
    "no heads": lambda a, b, valid: (a[:, :0], b[:, :0], valid),
    "no texts": lambda a, b, valid: (a[:0], b[:0], valid[:0]),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_equal_to_scipy(case, method):
    a, b, valid = CASES[case](maps(1), maps(2), torch.ones(5, 7, dtype=torch.bool))
    before = a.clone()
    found = correlations(a, b, valid, method)
    assert found.dtype == torch.float64 and found.shape == a.shape[:2]
    np.testing.assert_allclose(found, one_by_one(a, b, valid, method), atol=1e-6)
    assert torch.equal(a.nan_to_num(), before.nan_to_num()), "maps are left alone"

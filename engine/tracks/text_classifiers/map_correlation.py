"""Correlation of two maps over token pairs, for every head of every text at once, on the maps'
device.

Pairs (i, j) count where neither token is padding. Equal to scipy.stats: Spearman with average ranks
for ties, Kendall's tau-b, Pearson. A map that is constant over its pairs has no correlation: NaN,
for the caller to count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from scipy.stats import kendalltau
from torch import Tensor

from engine.core.errors import RequestError, unknown


def correlations(a: Tensor, b: Tensor, valid: Tensor, method: str = "spearman") -> Tensor:
    """Correlation per text and head, float64 [n, heads].

    a, b: float [n, heads, tokens, tokens]; valid: bool [n, tokens], True where a token is no
    padding. Values at pairs of padding are never read. NaN where one of the maps is constant (or
    has one pair only). RequestError for an unknown method.
    """
    if method not in METHODS:
        raise RequestError(unknown("correlation", method, METHODS))
    n, heads = a.shape[:2]
    found = torch.full((n, heads), torch.nan, dtype=torch.float64, device=a.device)
    lengths = valid.sum(1)
    for length in torch.unique(
        lengths
    ).tolist():  # equal lengths make rectangles, without a place for padding
        rows = (lengths == length).nonzero()[:, 0]
        if length and heads:
            x, y = (_pairs(maps[rows], valid[rows], length) for maps in (a, b))
            found[rows] = _where_both_vary(x, y, METHODS[method]).unflatten(0, (len(rows), heads))
    return found


def _pairs(maps: Tensor, valid: Tensor, length: int) -> Tensor:
    """[n, heads, tokens, tokens] -> [n * heads, length²], the pairs of tokens that are no
    padding."""
    n, heads = maps.shape[:2]
    if bool(valid[:, :length].all()):
        kept = maps[:, :, :length, :length]
    else:
        place = valid.nonzero()[:, 1].view(n, 1, length, 1)
        kept = maps.gather(2, place.expand(n, heads, length, maps.shape[3]))
        kept = kept.gather(3, place.transpose(2, 3).expand(n, heads, length, length))
    return kept.reshape(n * heads, length * length)


def _where_both_vary(x: Tensor, y: Tensor, of: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The correlation `of` each row of x with that row of y, NaN where one of them is constant.

    x, y [rows, numbers] -> [rows].
    """
    varies = torch.ones(len(x), dtype=torch.bool, device=x.device)
    for values in (x, y):
        least, most = torch.aminmax(values, dim=1)
        varies &= least != most
    found = torch.full((len(x),), torch.nan, dtype=torch.float64, device=x.device)
    if varies.any():
        found[varies] = of(x[varies], y[varies])
    return found


def _spearman(x: Tensor, y: Tensor) -> Tensor:
    """Pearson of average ranks: x, y [rows, numbers] -> [rows] float64.

    Everything stays in the order of x; the ranks of y are found in that order.
    """
    middle = (x.shape[1] - 1) / 2  # the mean of ranks that start at 0
    rank, order = _average_ranks(x)
    other, again = _average_ranks(y.gather(1, order))
    rank, other = rank - middle, other - middle
    together = (rank.gather(1, again) * other).sum(1)
    return _within_one(together / (rank.square().sum(1) * other.square().sum(1)).sqrt())


def _average_ranks(values: Tensor) -> tuple[Tensor, Tensor]:
    """Ranks from 0 of each row's sorted values, ties sharing their mean, float64, and the order
    that sorts, int64.

    All three are [rows, numbers].
    """
    ordered, order = _sorted(values)
    width = values.shape[1]
    place = torch.arange(width, device=values.device)
    edge = ordered[:, 1:] != ordered[:, :-1]
    first, last = place.repeat(len(values), 1), place.repeat(len(values), 1)
    first[:, 1:].mul_(
        edge
    )  # 0 inside a run of equal values, then the largest so far: where the run began
    last[:, :-1].masked_fill_(~edge, width)
    first, last = first.cummax(1).values, last.flip(1).cummin(1).values.flip(1)
    return (first + last).double() / 2, order


def _sorted(values: Tensor) -> tuple[Tensor, Tensor]:
    """Sorted rows and the order, [rows, numbers] each. On a CPU by numpy, whose sort is several
    times as fast as torch's.

    float32 numbers are sorted as whole numbers: their bits, flipped below zero so that they order
    alike, above their place in the row.
    """
    if values.device.type != "cpu":
        return values.sort(dim=1)
    if values.dtype != torch.float32:
        order = torch.from_numpy(np.argsort(values.numpy(), axis=1))
        return values.gather(1, order), order
    keys = values.contiguous().view(torch.int32).numpy().astype(np.int64)
    keys ^= (keys >> 31) & 0x7FFFFFFF
    keys = (keys << 32) | np.arange(values.shape[1])
    keys.sort(axis=1)
    order = torch.from_numpy(keys & 0xFFFFFFFF)
    return values.gather(1, order), order


def _pearson(x: Tensor, y: Tensor) -> Tensor:
    """Pearson's correlation of each row: x, y [rows, numbers] -> [rows] float64."""
    x, y = (values.double() - values.double().mean(1, keepdim=True) for values in (x, y))
    x, y = (
        values / values.abs().amax(1, keepdim=True) for values in (x, y)
    )  # squares of tiny numbers vanish
    return _within_one((x * y).sum(1) / (x.square().sum(1) * y.square().sum(1)).sqrt())


def _kendall(x: Tensor, y: Tensor) -> Tensor:
    """Kendall's tau-b of each row: x, y [rows, numbers] -> [rows] float64. By scipy, row by row."""
    pairs = zip(x.double().cpu().numpy(), y.double().cpu().numpy(), strict=True)
    found = [kendalltau(*pair).statistic for pair in pairs]
    return torch.tensor(found, dtype=torch.float64, device=x.device)


def _within_one(values: Tensor) -> Tensor:
    """Correlations without the rounding that carries them beyond −1 and 1, of any shape."""
    return values.clamp(-1.0, 1.0)


METHODS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "spearman": _spearman,
    "kendall": _kendall,
    "pearson": _pearson,
}

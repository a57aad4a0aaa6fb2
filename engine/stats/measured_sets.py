"""What a number will be on a set of units, learnt from sets that were measured: single units and
pairs, shrunk.

Ridge regression of the change on the units in the set and, weighted by PAIR, on pairs of them. It
is written by what two sets share. With s units in common the kernel is s + PAIR s(s
- 1)/2. So its size is that of the measured sets and not of all pairs. Where units may matter
unlike, a set holds sizes in place of ones: a unit counts by their square, a pair by both squares.
The shrinkage that leaves out each set best is taken.

An interval is read off what was missed in leaving out each set. Misses are ranked in units of the
standard deviation that the regression expects there. It is wider where a set shares little with
those that were measured. Levels of one method are alike, so sets that share much with a set are
left out with it. Else intervals of new kinds of sets are too narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

PAIR = 0.1
SHRINKAGE = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
NEAR = 40
"""Sets left out at once, the most alike first."""
MOST = 1500
"""Sets that are learnt from: as many, evenly taken, where more were measured."""


@dataclass(frozen=True, eq=False)
class Learnt:
    """member: measured sets, [sets, units] sizes, 0 without; places: which of those given they are.
    Of each of the numbers [numbers]: weights and residuals (of each set left out) [numbers, sets],
    shrinkage, low and high (ends of the ratios of residuals). values, vectors: of the kernel; pair:
    what pairs count in it."""

    member: np.ndarray
    places: np.ndarray
    values: np.ndarray
    vectors: np.ndarray
    weights: np.ndarray
    shrinkage: np.ndarray
    low: np.ndarray
    high: np.ndarray
    residuals: np.ndarray
    pair: float = PAIR

    @property
    def sets(self) -> int:
        return len(self.member)

    @property
    def most(self) -> int:
        """Units of the largest measured set: nothing vouches for larger ones."""
        return int((self.member > 0).sum(axis=1).max())

    def guess(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Changes with the ends of their 95 % prediction intervals, [queries, numbers] each, of
        sets `units` [queries, all units] as `member`. The change of the empty set is 0, exactly."""
        shared = _kernel(units, self.member, self.pair)
        value = shared @ self.weights.T
        along = (shared @ self.vectors) ** 2
        own = np.diag(_kernel(units, units, self.pair))[:, None]
        spread = np.stack(
            [own[:, 0] - along @ (1 / (self.values + one)) + one for one in self.shrinkage], axis=1
        )
        size = np.sqrt(np.maximum(spread, 1e-12)) * (own > 0)
        return value, value + self.low * size, value + self.high * size


def learnt(
    member: np.ndarray, changes: np.ndarray, pair: float = PAIR, alike: float = 1.0
) -> Learnt | None:
    """From sets [sets, units], sizes or 0, and their changes [sets, numbers]; None where too few
    were measured for an interval. alike: sets that share more than this part of the units of both
    are left out together for the interval."""
    if len(member) < ENOUGH:
        return None
    places = np.unique(np.linspace(0, len(member) - 1, min(len(member), MOST)).astype(int))
    member, changes = member[places].astype(np.float64), changes[places]
    values, vectors = np.linalg.eigh(_kernel(member, member, pair))
    values, turned = np.maximum(values, 0.0), vectors.T @ changes
    near = _near(member > 0, alike)
    found = [_best(values, vectors, column, near) for column in turned.T]
    weights, shrinkage, low, high, residuals = (np.array(part) for part in zip(*found, strict=True))
    return Learnt(member, places, values, vectors, weights, shrinkage, low, high, residuals, pair)


def _near(has: np.ndarray, alike: float) -> list[np.ndarray]:
    """Of each set [sets, units] the places of itself, first, and of those like it; [] where none
    can be."""
    if alike >= 1:
        return []
    both, count = has.astype(float) @ has.T, has.sum(axis=1)
    part = both / np.maximum(count[:, None] + count - both, 1)
    np.fill_diagonal(part, 2.0)
    return [np.argsort(-row, kind="stable")[: min((row > alike).sum(), NEAR)] for row in part]


def _best(
    values: np.ndarray, vectors: np.ndarray, turned: np.ndarray, near: list[np.ndarray]
) -> tuple[np.ndarray, float, float, float, np.ndarray]:
    """Weights, shrinkage, ends of the ratios and residuals of one number.

    values, vectors: of the kernel of the sets; turned: its changes in the basis of the vectors,
    [sets]; near: as `_near` finds them.
    """
    best: tuple[float, float, np.ndarray, np.ndarray, np.ndarray] | None = None
    for shrinkage in SHRINKAGE:
        inverse = 1 / (values + shrinkage)
        diagonal = vectors**2 @ inverse
        weights = vectors @ (inverse * turned)
        missed = weights / diagonal  # leaving out each set, without fitting again
        error = float(np.sqrt((missed**2).mean()))
        if best is None or error < best[0]:
            best = error, shrinkage, weights, missed, missed * np.sqrt(diagonal)
    assert best is not None, "there are shrinkages"
    _, shrinkage, weights, missed, ratio = best
    if near:
        inverse = (vectors / (values + shrinkage)) @ vectors.T
        ratio = np.array([_left_out(inverse[np.ix_(own, own)], weights[own]) for own in near])
    return weights, shrinkage, *ends(ratio), missed


def _left_out(inverse: np.ndarray, weights: np.ndarray) -> float:
    """What is missed of the first of some sets that are left out together, in units of its standard
    deviation; of these, [sets, sets] and [sets]."""
    first = np.zeros(len(weights))
    first[0] = 1
    missed, spread = np.linalg.solve(inverse, np.stack([weights, first], axis=1))[0]
    return float(missed / np.sqrt(spread))


def _kernel(one: np.ndarray, other: np.ndarray, pair: float) -> np.ndarray:
    one, other = one.astype(np.float64), other.astype(np.float64)
    shared = one @ other.T
    return shared + pair * (shared**2 - one**2 @ (other**2).T) / 2


LEVEL = 0.95
ENOUGH = 39
"""Misses from which ranks give both ends of a 95 % interval (2 / (39 + 1) is 5 %)."""


def ends(ratios: np.ndarray) -> tuple[float, float]:
    """Ends of a prediction interval by ranks of what was missed before (split conformal, Vovk et
    al. 2005).

    Lower and upper end, in units of the scale that misses [n] were divided by. Each is exceeded by
    one more miss with probability (1 - LEVEL) / 2 at most. 0 lies between them, so that what is
    predicted is inside.
    """
    return -_upper(-ratios), _upper(ratios)


def _upper(ratios: np.ndarray) -> float:
    rank = math.ceil((len(ratios) + 1) * (1 + LEVEL) / 2 - 1e-9)
    return max(0.0, float(np.sort(ratios)[min(rank, len(ratios)) - 1]))

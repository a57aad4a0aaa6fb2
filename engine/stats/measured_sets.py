"""What a number will be on a set of units, learnt from sets that were measured: single units and
pairs, shrunk.

Ridge regression of the change on which units are in the set and on which pairs of them, the latter
weighted by PAIR, written by what two sets share. With s units in common the kernel is s + PAIR s(s
- 1)/2. So its size is that of the measured sets and not of all pairs. The shrinkage that leaves out
each set best is taken. An interval is read off what was missed in leaving out each set, by ranks,
in units of the standard deviation that the regression expects there. It is wider where a set shares
little with those that were measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

PAIR = 0.1
SHRINKAGE = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
MOST = 1500
"""Sets that are learnt from: as many, evenly taken, where more were measured."""


@dataclass(frozen=True, eq=False)
class Learnt:
    """member: measured sets, [sets, units] 0 or 1; places: which of those given they are. Of each
    of the numbers [numbers]: weights and residuals (of each set left out) [numbers, sets],
    shrinkage, low and high (ends of the ratios of residuals). values, vectors: of the kernel."""

    member: np.ndarray
    places: np.ndarray
    values: np.ndarray
    vectors: np.ndarray
    weights: np.ndarray
    shrinkage: np.ndarray
    low: np.ndarray
    high: np.ndarray
    residuals: np.ndarray

    @property
    def sets(self) -> int:
        return len(self.member)

    @property
    def most(self) -> int:
        """Units of the largest measured set: nothing vouches for larger ones."""
        return int(self.member.sum(axis=1).max())

    def guess(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Changes with the ends of their 95 % prediction intervals, [queries, numbers] each, of
        sets `units` [queries, all units] 0 or 1. The change of the empty set is 0, exactly."""
        shared = _kernel(units, self.member)
        value = shared @ self.weights.T
        along = (shared @ self.vectors) ** 2
        own = np.diag(_kernel(units, units))[:, None]
        spread = np.stack(
            [own[:, 0] - along @ (1 / (self.values + one)) + one for one in self.shrinkage], axis=1
        )
        size = np.sqrt(np.maximum(spread, 1e-12)) * (own > 0)
        return value, value + self.low * size, value + self.high * size


def learnt(member: np.ndarray, changes: np.ndarray) -> Learnt | None:
    """From sets [sets, units] 0 or 1 and their changes [sets, numbers]; None where too few were
    measured for an interval."""
    if len(member) < ENOUGH:
        return None
    places = np.unique(np.linspace(0, len(member) - 1, min(len(member), MOST)).astype(int))
    member, changes = member[places].astype(np.float64), changes[places]
    values, vectors = np.linalg.eigh(_kernel(member, member))
    values, turned = np.maximum(values, 0.0), vectors.T @ changes
    found = [_best(values, vectors, column) for column in turned.T]
    weights, shrinkage, low, high, residuals = (np.array(part) for part in zip(*found, strict=True))
    return Learnt(member, places, values, vectors, weights, shrinkage, low, high, residuals)


def _best(
    values: np.ndarray, vectors: np.ndarray, turned: np.ndarray
) -> tuple[np.ndarray, float, float, float, np.ndarray]:
    """Weights, shrinkage, ends of the ratios and residuals of one number.

    values, vectors: of the kernel of the sets; turned: its changes in the basis of the vectors,
    [sets].
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
    return weights, shrinkage, *ends(ratio), missed


def _kernel(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    shared = one.astype(np.float64) @ other.astype(np.float64).T
    return shared + PAIR * shared * (shared - 1) / 2


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

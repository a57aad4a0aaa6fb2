"""Which heads must be measured for an order to be settled around some of its places, where first
order is close.

Everything is a change of log perplexity (nats per token) by switching one head off. What first
order misses on the beginning of a text tells which heads it may miss on the whole; how many times
as much is learned from measured heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FIRST = 2
"""Heads that are measured first on either side of a place."""
MORE = 2
"""Heads that are measured next on either side: those that reach farthest across."""
REACH = 3.0
"""Standard errors within which a head is taken to lie. Nothing bounds a head for certain but
measuring it: of 460 orders of 144 heads, each around one place, one was wrong (docs/LOG.md)."""
EXPLAINED = 0.9
"""Share of the effects on the beginning that first order must explain, or all heads are measured.
"""
USUAL, FIRMNESS = np.array([1.0, 0.2, 0.0]), np.array([1e-9, 1.0, 1.0])
"""Weights of first order, of its miss on the beginning and of its layer's before anything is
measured, and how firmly they are held (as so many heads)."""
HELD, BEFORE = 6.0, 2.0
"""Before heads are measured, first order is taken to be off on the whole text by as much as if its
misses were those of independent tokens, times √BEFORE, and this is held as so many heads: the first
few may all lie close by chance."""


@dataclass(frozen=True)
class Hints:
    """First order on the whole text, first order on its beginning and the measured effect there,
    [units] each."""

    first: np.ndarray
    first_beginning: np.ndarray
    beginning: np.ndarray
    heads: int
    """Heads of a layer."""
    share: float
    """Of the text that the beginning is."""

    @property
    def explained(self) -> float:
        """Share of the sum of squares of effects on the beginning that is explained by first order
        times a slope."""
        first, effect = self.first_beginning, self.beginning
        slope = first @ effect / max(first @ first, 1e-300)
        return float(1.0 - ((effect - slope * first) ** 2).sum() / max(effect @ effect, 1e-300))

    def misses(self) -> tuple[np.ndarray, np.ndarray]:
        """What first order misses on the beginning, and its root mean square in a head's layer,
        smoothed over neighbouring layers: [units] each."""
        own = self.beginning - self.first_beginning
        power = (own.reshape(-1, self.heads) ** 2).mean(axis=1)
        padded = np.concatenate([power[:1], power, power[-1:]])
        smooth = np.sqrt((padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4)
        return own, np.repeat(smooth, self.heads)


@dataclass(frozen=True)
class Placed:
    """Where every head lies, [units], give or take `reach` (0: measured)."""

    value: np.ndarray
    reach: np.ndarray

    def crossing(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Heads that are not measured and may cross the place after the `place` highest: from
        above, the lowest first, and from below, the highest first."""
        order = np.argsort(-self.value, kind="stable")
        above, below = order[:place], order[place:]
        low, high = self.value - self.reach, self.value + self.reach
        down = above[(low[above] < high[below].max()) & (self.reach[above] > 0)]
        up = below[(high[below] > low[above].min()) & (self.reach[below] > 0)]
        return down[np.argsort(low[down], kind="stable")], up[np.argsort(-high[up], kind="stable")]


def placed(hints: Hints, units: Sequence[int], measured: np.ndarray) -> Placed:
    """From the effects measured so far, measured [len(units)]: least squares of them on the hints,
    each weighed by how far first order may be off there."""
    own, layer = hints.misses()
    scale = np.hypot(layer, own / 2) + 1e-12
    given, at = np.stack([hints.first, own, layer], axis=1), list(units)
    rows = given[at] / scale[at, None]
    held = np.diag(FIRMNESS * np.array([max((rows[:, 0] ** 2).sum(), 1e-30), 1.0, 1.0]))
    off = measured / scale[at] - rows @ USUAL
    weights = USUAL + np.linalg.solve(rows.T @ rows + held, rows.T @ off)
    left = measured / scale[at] - rows @ weights
    value = given @ weights
    variance = ((left**2).sum() + HELD * BEFORE * hints.share) / max(len(at) - 2 + HELD, 1)
    reach = REACH * scale * np.sqrt(variance)
    value[at], reach[at] = measured, 0.0
    return Placed(value, reach)


def first_near(hints: Hints, places: Sequence[int]) -> list[int]:
    """The heads nearest each place by their hints."""
    order = np.argsort(-(hints.first + USUAL[1] * hints.misses()[0]), kind="stable")
    return sorted(
        {int(unit) for place in places for unit in order[max(0, place - FIRST) : place + FIRST]}
    )


def next_near(found: Placed, places: Sequence[int]) -> list[int]:
    """Heads to measure next; none where the order is settled around every place."""
    sides = [side for place in places for side in found.crossing(place)]
    return sorted({int(unit) for side in sides for unit in side[:MORE]})

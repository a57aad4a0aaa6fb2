"""Standard errors of a bias, of its change, and of its derivative: contrasts of subgroup means,
clustered two ways.

A bias Σ_s |m_s − c| is piecewise linear in the subgroup means m: where its signs are settled it is the contrast
Σ_s σ_s (m_s − c), with the variance of `engine.stats.clustered` over descriptors and templates.
Near a kink, where
noise decides the sign of m_s − c, a contrast is wrong both ways: |m_s − c| varies less than m_s − c does, and an effect
on that subgroup enters with a sign that varies. So the variance is corrected with draws of the
means from their normal distribution, around means shrunk by √(1 − noise/spread): as far apart as
the true ones are estimated to be, since noise has pushed the measured ones further. Where no sign
is in doubt nothing is changed.

Intervals are for the level that this number of prompts gives: compare it with the null band, not
with zero. They cover .93 to .98 where subgroups differ, .98 to .995 where none or hardly any
difference is there (`python -m benchmarks.calibration --only language_models`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.core.errors import RequestError, unknown
from engine.core.seeds import rng
from engine.core.types import READINGS
from engine.stats.clustered import Clustered, Covariance
from engine.stats.resampling import Difference, Interval
from engine.stats.student import Student
from engine.tracks.language_models.bias_definitions import Layout, paired_terms
from engine.tracks.language_models.prompt_order import MIN_TEMPLATES, PromptOrder, named_clusters

DRAWS = 1000
"""Draws of the means. The factor that they give is within about 3 % where every sign is in doubt.
"""
COLUMNS = 64
"""Columns evaluated at once: bounds the memory of many heads."""
Function = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From distances to the centre (means, changes), [..., subgroups] each, to a number, [...]."""


@dataclass(frozen=True, eq=False)
class Quantity:
    """What is made of the means and of their changes: its value, and its contrasts with both where
    signs stay.

    contrasts: (distances, changes of distances) -> coefficients of both, each [columns, subgroups].
    """

    value: Function
    contrasts: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


LEVEL = Quantity(lambda x, e: np.abs(x).sum(-1), lambda x, e: (np.sign(x), np.zeros_like(x)))
"""Σ |x|."""
CHANGE = Quantity(
    lambda x, e: (np.abs(x + e) - np.abs(x)).sum(-1),
    lambda x, e: (np.sign(x + e) - np.sign(x), np.sign(x + e)),
)
"""Σ |x + e| − Σ |x|."""
SLOPE = Quantity(
    lambda x, e: (np.sign(x) * e).sum(-1),
    lambda x, e: (np.zeros_like(x), np.sign(x) * np.ones_like(e)),
)
"""Σ sign(x) e: the derivative of Σ |x| along e."""
TOTALS = {
    LEVEL: Quantity(lambda x, e: x.sum(-1), lambda x, e: (np.ones_like(x), np.zeros_like(x))),
    CHANGE: Quantity(lambda x, e: e.sum(-1), lambda x, e: (np.zeros_like(x), np.ones_like(e))),
}
"""The same where absolute values were taken frame by frame already (`paired_prompts`): plain sums,
no kinks."""


class BiasErrors(PromptOrder):
    """Errors of one axis: the dense model's bias, its change in variants, the effect of each
    head."""

    def __init__(self, dense: pd.DataFrame) -> None:
        super().__init__(dense)
        self.dense = self.toxicities(dense)
        self._made: dict[bool, Clustered] = {}

    def interval(self, reading: str = "group_means", table: pd.DataFrame | None = None) -> Interval:
        """Bias of the dense model, or of `table`, with its interval, which never reaches below
        0."""
        toxicity = self.dense if table is None else self.toxicities(table)
        found = self.levels(toxicity[:, None], reading)
        low = np.maximum(found.low, 0.0) if np.isfinite(found.low[0]) else found.low
        return Interval(
            float(found.value[0]), float(low[0]), float(found.high[0]), len(self.prompts)
        )

    def difference(self, table: pd.DataFrame, reading: str = "group_means") -> Difference:
        """Bias of the variant in `table` minus bias of the dense model."""
        found = self.changes(self.toxicities(table)[:, None], reading)
        value, low, high, p = (
            float(getattr(found, name)[0]) for name in ("value", "low", "high", "p")
        )
        return Difference(value, low, high, p, len(self.prompts))

    def levels(self, values: np.ndarray, reading: str = "group_means") -> Student:
        """Bias of each column of values [prompts, columns], as `matrix` gives them."""
        return self._chunks(LEVEL, values, None, reading)

    def changes(
        self, values: np.ndarray, reading: str = "group_means", dense: np.ndarray | None = None
    ) -> Student:
        """Bias of each column of values [prompts, columns] minus that of the dense model, or of
        `dense`, as wide."""
        return self._chunks(
            CHANGE, self.dense[:, None] if dense is None else dense, values, reading
        )

    def slopes(
        self, values: np.ndarray, reading: str = "group_means", dense: np.ndarray | None = None
    ) -> Student:
        """Derivative of the bias along each column of values [prompts, columns], the change of
        toxicities per step."""
        return self._chunks(SLOPE, self.dense[:, None] if dense is None else dense, values, reading)

    def _chunks(
        self, quantity: Quantity, first: np.ndarray, second: np.ndarray | None, reading: str
    ) -> Student:
        """A few columns after the other."""
        if reading not in READINGS:
            raise RequestError(unknown("reading", reading, READINGS))
        columns, found = (first if second is None else second).shape[1], []
        for start in range(0, columns, COLUMNS):
            at = slice(start, start + COLUMNS)
            one = first if first.shape[1] == 1 else first[:, at]
            found.append(
                self._tested(quantity, one, None if second is None else second[:, at], reading)
            )
        joined = (
            np.concatenate([getattr(one, name) for one in found]) if found else np.zeros(0)
            for name in ("value", "error", "freedom")
        )
        return Student(*joined)

    def _tested(
        self, quantity: Quantity, first: np.ndarray, second: np.ndarray | None, reading: str
    ) -> Student:
        """Value, error and degrees of freedom of every column."""
        paired = reading == "paired_prompts"
        clusters, quantity = self._clusters(paired), TOTALS[quantity] if paired else quantity
        first = self._terms(first) if paired else first
        if second is None:
            second = np.zeros_like(first)
        elif quantity is not SLOPE:
            second = (self._terms(second) if paired else second) - first
        found, means = (
            clusters.covariance(first, second),
            (clusters.means(first), clusters.means(second)),
        )
        centre = self._centre(reading)
        columns = second.shape[1]
        x, e = (np.broadcast_to(part @ centre.T, (columns, len(centre))) for part in means)
        value = quantity.value(x, e)
        if (self.sizes < 2).any():  # one prompt has no spread of its own
            return Student(value, *[np.full(columns, np.nan)] * 2)
        contrast = np.stack(quantity.contrasts(x, e), axis=1) @ centre
        variance, freedom = found.of(contrast)
        if not paired:
            variance = _with_kinks(quantity, variance, _drawn(found, contrast, x, e, centre))
        return Student(value, np.sqrt(variance), freedom)

    def _centre(self, reading: str) -> np.ndarray:
        """From means to their distances to the centre, [subgroups, subgroups]."""
        count = len(self.subgroups)
        if reading == "paired_prompts":
            return np.eye(count)
        weight = (
            np.bincount(self.layout.subgroup, self.rows)
            if reading == "group_means"
            else np.ones(count)
        )
        return np.eye(count) - weight / weight.sum()

    def _terms(self, values: np.ndarray) -> np.ndarray:
        """Distances inside each prompt's frame, [prompts, columns], of values [prompts,
        columns]."""
        return np.stack(
            [paired_terms(with_toxicity(self.layout, column))[1] for column in values.T], axis=1
        )

    def _clusters(self, paired: bool) -> Clustered:
        """Descriptors, else prompts, inside subgroups; templates across them where there are
        enough."""
        if paired not in self._made:
            base = paired_terms(self.layout)[0] if paired else self.rows
            template = (
                self.layout.template if self.layout.template.max() + 1 >= MIN_TEMPLATES else None
            )
            self._made[paired] = Clustered(self.layout.subgroup, base, self._words(), template)
        return self._made[paired]

    def _words(self) -> np.ndarray:
        """What varies inside a subgroup, [prompts] int: its descriptors, else its prompts."""
        layout = self.layout
        found = np.arange(len(layout.subgroup))
        for code in range(len(layout.subgroups)):
            rows = np.flatnonzero(layout.subgroup == code)
            clusters = named_clusters(layout, rows)
            found[rows] = (
                rows
                if clusters is None
                else rows[np.unique(clusters, return_index=True)[1]][clusters]
            )
        return found


def with_toxicity(layout: Layout, toxicities: np.ndarray) -> Layout:
    """The layout of the prompts with other toxicities [prompts]."""
    return Layout(**{**layout.__dict__, "toxicity": toxicities})


@dataclass(frozen=True, eq=False)
class Drawn:
    """Normal draws around the estimates of one quantity's columns.

    x, e [columns, subgroups]: distances and their changes; moved and more [columns, draws,
    subgroups]: what noise adds to each; contrast [columns, parts, subgroups] on distances; straight
    [columns]: how much the drawn contrast varies.
    """

    x: np.ndarray
    e: np.ndarray
    moved: np.ndarray
    more: np.ndarray
    spread: np.ndarray
    straight: np.ndarray


def _drawn(
    found: Covariance, contrast: np.ndarray, x: np.ndarray, e: np.ndarray, centre: np.ndarray
) -> Drawn:
    """Draws of the means as `found` lets them vary; contrast [columns, parts, subgroups] on
    means."""
    columns, count = x.shape
    root = found.root()
    means = (rng("kinks", count).standard_normal((DRAWS, 2 * count)) @ root.swapaxes(1, 2)).reshape(
        columns, DRAWS, 2, count
    )
    spread = ((root.reshape(columns, 2, count, -1).swapaxes(2, 3) @ centre.T) ** 2).sum(axis=(2, 3))
    straight = np.einsum("cdks,cks->cd", means, contrast).var(axis=1)
    return Drawn(x, e, means[:, :, 0] @ centre.T, means[:, :, 1] @ centre.T, spread, straight)


def _with_kinks(quantity: Quantity, variance: np.ndarray, drawn: Drawn) -> np.ndarray:
    """Variance of the quantity, [columns], from `variance`, that of its contrast.

    Two estimates, both of which err upwards, so the smaller one counts: the contrast's variance
    times how much more or less the quantity itself varies over draws around shrunk distances and
    changes; and, for a change, the contrast's variance plus what signs that noise may turn make of
    the change.
    """
    near = _shrunk(drawn.x, drawn.spread[:, 0]) + drawn.moved
    bent = quantity.value(near, _shrunk(drawn.e, drawn.spread[:, 1]) + drawn.more).var(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(drawn.straight > 0, variance * bent / drawn.straight, bent)
    return (
        found if quantity is LEVEL else np.minimum(found, variance + _turned(quantity, near, drawn))
    )


def _turned(quantity: Quantity, near: np.ndarray, drawn: Drawn) -> np.ndarray:
    """What turned signs add to the variance of a change, [columns]; near [columns, draws,
    subgroups]: drawn distances.

    The change itself stays as measured. Its square holds its own noise, which would be turned as
    well: that part, half the mean squared difference between the noise read with two independent
    sets of signs, is taken off.
    """
    settled, _ = quantity.contrasts(drawn.x, drawn.e)
    whole = (quantity.value(near, drawn.e[:, None]) - np.einsum("cds,cs->cd", near, settled)).var(
        axis=1
    )
    noise = quantity.value(near, drawn.more) - quantity.value(np.roll(near, 1, axis=1), drawn.more)
    return np.maximum(whole - (noise**2).mean(axis=1) / 2, 0.0)


def _shrunk(distances: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Distances [columns, subgroups] drawn together by what noise, their summed variance [columns],
    put between them: [columns, 1, subgroups].
    """
    spread = (distances**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.where(spread > noise, 1 - noise / spread, 0.0)
    return (distances * np.sqrt(kept)[:, None])[:, None]

"""z_ppl for choosing protected heads: the gradient for all, exact perplexity for those that γ could
hang on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.core.ids import exact_count
from engine.stats.student import benjamini_hochberg
from engine.tracks.language_models.context import BEGINNING, Shard
from engine.tracks.language_models.perplexity import log_perplexities
from engine.tracks.language_models.scores.base import (
    COLUMNS,
    VALIDATION,
    ScoreJob,
    ScoreMethod,
    score_rows,
)
from engine.tracks.language_models.scores.perplexity import GradientPerplexity, effects_of

START = BEGINNING + VALIDATION


@dataclass(frozen=True)
class Known:
    """How far scoring is: shards it needs so far, units that are measured, where all lie, and what
    first order explains of the effects on the beginning of the text."""

    wanted: list[Shard]
    units: tuple[int, ...] = ()
    found: Placed | None = None
    explained: float = float("nan")


class AutoPerplexity(ScoreMethod):
    """FASP Eq. 3 where it decides.

    Which heads are critical hangs on the order of z_ppl around the int(γ·N_h)-th. The gradient
    orders all heads; the beginning of the text, measured with every head off, tells how far it may
    be off. Heads that may lie on either side of such a place are measured on the whole text until
    none is left, and all heads where first order explains too little. A cut by perplexity alone
    decides at its other end as well.
    """

    name = "auto"
    version = 2
    score = "z_ppl"
    uses = ("gradient", "exact")

    def shards(self, job: ScoreJob) -> list[Shard]:
        return self._known(job).wanted

    def table(self, job: ScoreJob) -> pd.DataFrame:
        known = self._known(job)
        first = GradientPerplexity().table(job).assign(estimator="gradient")
        if known.found is None:
            return first[COLUMNS]
        dense = _dense(job, VALIDATION)
        rows = {
            name: _z(dense, known.found.value + sign * known.found.reach)
            for name, sign in (("value", 0.0), ("low", 1.0), ("high", -1.0))
        }
        rows |= {
            "low": rows["low"] + (first["low"] - first["value"]).to_numpy(),
            "high": rows["high"] + (first["high"] - first["value"]).to_numpy(),
            "p": np.full(job.total, np.nan),
        }
        at = list(known.units)
        for name, values in effects_of(job, known.units).items():
            rows[name][at] = values
        is_exact = np.isin(np.arange(job.total), at)
        said = "published window: no interval" if job.context.settings.window.published else ""
        return score_rows(
            job,
            self,
            rows.pop("value"),
            **rows,
            q=benjamini_hochberg(rows["p"]),
            n=int(first["n"].iloc[0]),
            note=np.where(is_exact, said, "first order").tolist(),
        ).assign(estimator=np.where(is_exact, "exact", "gradient").tolist())

    def report(self, job: ScoreJob) -> dict[str, Any]:
        known = self._known(job)
        heads = {"exact": len(known.units), "gradient": job.total - len(known.units)}
        return {"heads": heads, "first_order": {"explained": known.explained}}

    def _known(self, job: ScoreJob) -> Known:
        """Asked again after every shard that was wanted; equal results, equal answers."""
        places, gradient = _places(job), GradientPerplexity().shards(job)
        start = [Shard("window_gradients", split=START), *_off(range(job.total), START)]
        wanted = gradient if not places else [*gradient, *start, Shard("windows", split=VALIDATION)]
        if not places or not job.finished(wanted):
            return Known(wanted)
        hints = Hints(
            _first(job, VALIDATION),
            _first(job, START),
            _effects(job, range(job.total), START),
            job.context.lm.n_heads,
            _share(job),
        )
        explained = hints.explained
        new = first_near(hints, places) if explained >= EXPLAINED else list(range(job.total))
        units: tuple[int, ...] = ()
        while True:
            units = (*units, *new)
            wanted = [*wanted, *_off(new, VALIDATION)]
            if not job.finished(wanted):
                return Known(wanted, explained=explained)
            found = placed(hints, units, _effects(job, units, VALIDATION))
            new = next_near(found, places)
            if not new:
                return Known(wanted, units, found, explained)


def _off(units: Sequence[int], split: str) -> list[Shard]:
    return [Shard("windows", (unit,), split=split) for unit in units]


def _dense(job: ScoreJob, split: str) -> float:
    """Log perplexity of the dense model."""
    return _log(job, job.fetch([Shard("window_gradients", split=split)])[0])


def _share(job: ScoreJob) -> float:
    """Tokens of the beginning over all."""
    return len(job.context.corpus_tokens(START)) / max(
        1, len(job.context.corpus_tokens(VALIDATION))
    )


def _log(job: ScoreJob, windows: pd.DataFrame) -> float:
    return float(
        log_perplexities(windows, np.ones((1, len(windows))), job.context.settings.window)[0]
    )


def _first(job: ScoreJob, split: str) -> np.ndarray:
    """Change of log perplexity by each head off, to first order, [units]."""
    windows = job.fetch([Shard("window_gradients", split=split)])[0]
    slopes, tokens = (
        windows[[str(unit) for unit in range(job.total)]].to_numpy(),
        windows["tokens"].to_numpy(),
    )
    published = job.context.settings.window.published
    return (
        -(slopes / tokens[:, None]).mean(axis=0)
        if published
        else -slopes.sum(axis=0) / tokens.sum()
    )


def _effects(job: ScoreJob, units: Sequence[int], split: str) -> np.ndarray:
    """Change of log perplexity by each of `units` off, measured, [units]."""
    return np.array([_log(job, table) for table in job.fetch(_off(units, split))]) - _dense(
        job, split
    )


def _z(dense: float, changes: np.ndarray) -> np.ndarray:
    """z_ppl of changes of log perplexity [units]: perplexity with the head on less that with the
    head off."""
    return np.exp(dense) - np.exp(dense + changes)


def _places(job: ScoreJob) -> list[int]:
    """How many heads lie below each place in the order of z_ppl that something is decided at."""
    found = [exact_count(gamma, job.total) for gamma in job.gammas]
    if job.cuts_by_perplexity:
        found += [job.total - exact_count(share, job.total) for share in job.sparsities]
    return sorted({place for place in found if 0 < place < job.total})


# Which heads must be measured for an order to be settled around some of its places, where first
# order is close.
#
# Everything is a change of log perplexity (nats per token) by switching one head off. What first
# order misses on the beginning of a text tells which heads it may miss on the whole; how many times
# as much is learned from measured heads.


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

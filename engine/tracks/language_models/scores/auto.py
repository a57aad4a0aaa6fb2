"""auto: the cheapest honest estimate of z_bias for every head, and more draws only while the selection is unstable.

Per axis:
1. The dense model's texts are drawn and judged. Is their bias above its null band? If not, every prompt is drawn again,
   up to the allowed number; if it stays inside, heads are not ranked: there is nothing to rank them by.
2. A pilot on a few prompts measures what a second of each estimator buys here. The gradient scores all heads.
3. Would fresh draws select heads as good? While the effect they would lose is more than the stated precision, every
   prompt is drawn twice as often.
4. Heads near a decision (cut or kept, at any sparsity and γ asked for) for which first order may be off by more than
   that precision are refined by the pilot's winner; where that is reweighting and leaves too few effective samples,
   they are generated again. Then 3 is asked once more.
Everything is decided from finished measurements, so a resumed run decides alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import Fault
from engine.core.types import Decoding, Setting
from engine.tracks.language_models import pilot
from engine.tracks.language_models.bias import NullBand, null_band
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.effects import (
    AxisData,
    HeadEffects,
    axis_table,
    dense_shards,
    first_order,
    generated,
    gradient_shards,
    off_shards,
    reweighted,
    weight_shards,
)
from engine.tracks.language_models.scores.base import COLUMNS, VALIDATION, ScoreJob, ScoreMethod
from engine.tracks.language_models.scores.reweight import (
    CAP,
    ESS,
    Poor,
    fallback_notes,
    poor,
    weighing_faults,
    with_ess,
)
from engine.tracks.language_models.selection_stability import (
    Decision,
    decisions,
    draw_errors,
    near_decision,
    shortfall,
    stability,
)

LEAST_DRAWS = 2
"""Draws of every prompt before the spread between draws can be judged."""
REACH = 1.96
"""Standard errors on either side of a score that count as near."""
NULL_DRAWS = 1000
LEVEL = 0.025
"""Chance of ranking heads by a bias that is not there, over all looks together."""


@dataclass
class State:
    """How far one axis is: what is wanted, what was decided. `open` while measurements are missing."""

    seeds: tuple[int, ...]
    wanted: list[Shard] = field(default_factory=list)
    open: bool = True
    band: NullBand | None = None
    refined: str = ""
    near: tuple[int, ...] = ()
    low: dict[int, Poor] = field(default_factory=dict)
    stability: float = float("nan")
    lost: float = float("nan")
    """Effect that selecting from fresh draws would lose, as a share of the dense bias."""
    why: str = ""
    looks: int = 1
    """How often the bias may be compared with its null band; each look gets its share of the error."""

    def judge(self, values: np.ndarray, by_seed: np.ndarray, wanted: Sequence[Decision]) -> None:
        """Note how stable the selection by values [units] is, given the values per seed [units, seeds]."""
        assert self.band is not None
        errors = draw_errors(by_seed)
        self.stability = stability(values, errors, wanted)
        self.lost = shortfall(values, errors, wanted) / self.band.value

    @property
    def ranked(self) -> bool:
        return self.band is not None and self.band.value > self.band.high and self.band.p <= LEVEL / self.looks


class Auto(ScoreMethod):
    """Gradient for all heads; reweighting, or regeneration, where a decision asks for it."""

    name = "auto"
    score = "z_bias"
    uses = ("gradient", "reweight", "generate")
    pilots = True
    settings = (
        ESS,
        CAP,
        Setting(
            "precision",
            "number",
            0.03,
            "Draws go on while a fresh selection would lose more effect than this share of the dense bias.",
            0.0,
            1.0,
            label="Precision (share of the dense bias)",
        ),
        Setting(
            "most_draws",
            "integer",
            12,
            "A prompt is drawn at most so many times for scoring.",
            2,
            1000,
            label="Most draws per prompt",
        ),
    )

    def faults(self, decoding: Decoding, reading: str) -> list[Fault]:
        return weighing_faults(self.name, decoding, reading)

    def seconds(self, job: ScoreJob, measured: pd.DataFrame, once: Mapping[str, float]) -> tuple[float, float]:
        """From a selection that is stable after the first draws to every draw allowed with every head refined."""
        least, most = max(LEAST_DRAWS, len(job.seeds)), max(self.option(job, "most_draws"), len(job.seeds))
        ess = self.option(job, "ess")
        refined = pilot.cheapest(measured, ess)
        again = pilot.share_poor(measured, ess) if refined == "reweight" else 0.0
        return least * once["gradient"], most * (once["gradient"] + once[refined] + again * once["generate"])

    def shards(self, job: ScoreJob) -> list[Shard]:
        return [shard for axis in job.axes for shard in self._state(job, axis).wanted]

    def table(self, job: ScoreJob) -> pd.DataFrame:
        return pd.concat([self._axis(job, axis) for axis in job.axes], ignore_index=True)[COLUMNS]

    def report(self, job: ScoreJob) -> dict[str, Any]:
        return {axis: self._report(job, axis) for axis in job.axes}

    # --- deciding

    def _state(self, job: ScoreJob, axis: str) -> State:
        most = max(self.option(job, "most_draws"), len(job.seeds))
        job = job.with_seeds(draws(job.seeds, max(LEAST_DRAWS, len(job.seeds))))
        state = State(job.seeds, looks=1 + math.ceil(math.log2(max(most / len(job.seeds), 1))))
        while self._signal(job, axis, state) and not state.ranked:
            if len(job.seeds) >= most:
                state.open, state.why = False, "null"
                return state
            job = job.with_seeds(draws(job.seeds, min(2 * len(job.seeds), most)))
            state.seeds = job.seeds
        while state.ranked and self._refine(job, axis, state, most):
            if not state.ranked:
                state.open, state.why = False, "null"
                return state
            settled = state.lost <= self.option(job, "precision")
            if settled or len(job.seeds) >= most:
                state.open, state.why = False, "settled" if settled else "draws"
                return state
            job = job.with_seeds(draws(job.seeds, min(2 * len(job.seeds), most)))
            state.seeds = job.seeds
        return state

    def _signal(self, job: ScoreJob, axis: str, state: State) -> bool:
        """Whether the dense texts are finished, and if so how their bias stands to its null band."""
        state.wanted += [shard for shard in dense_shards(job, axis) if shard not in state.wanted]
        if not job.finished(state.wanted):
            return False
        state.band = null_band(AxisData(job, axis).table, job.reading, NULL_DRAWS)
        return True

    def _refine(self, job: ScoreJob, axis: str, state: State, most: int) -> bool:
        """Whether everything for these draws is finished, and if so how stable the selection is."""
        trial = Shard("pilot", (), axis, VALIDATION, job.seeds[0])
        if not self._ask(job, state, [*dense_shards(job, axis), *gradient_shards(job, axis), trial]):
            return False
        data, least = AxisData(job, axis), self.option(job, "ess")
        state.band = null_band(data.table, job.reading, NULL_DRAWS)
        measured = job.fetch([trial])[0]
        state.refined = pilot.cheapest(measured, least)
        first = first_order(data, intervals=False)
        wanted = decisions(job.known, job.total, (0.0, *job.gammas), job.sparsities)
        assert state.band is not None
        precise = self.option(job, "precision")
        state.judge(first.pooled.value, first.by_seed, wanted)
        if state.lost > precise and len(job.seeds) < most:
            return True  # another estimate from the same draws would not help; draws do
        noise, off = draw_errors(first.by_seed), pilot.first_order_error(measured, first.pooled.value, least)
        near = near_decision(first.pooled.value, REACH * noise + off, wanted) & (off > precise * state.band.value)
        state.near = tuple(np.flatnonzero(near).tolist())
        if state.refined == "reweight":
            if not self._ask(job, state, [one for unit in state.near for one in weight_shards(job, axis, unit)]):
                return False
            state.low = poor(data, state.near, least) if state.near else {}
        again = state.low if state.refined == "reweight" else state.near
        if not self._ask(job, state, [one for unit in again for one in off_shards(job, axis, (unit,))]):
            return False
        values, by_seed = first.pooled.value.copy(), first.by_seed.copy()
        for found in self._refinements(data, state, intervals=False):
            values[list(found.units)], by_seed[list(found.units)] = found.pooled.value, found.by_seed
        state.judge(values, by_seed, wanted)
        return True

    def _ask(self, job: ScoreJob, state: State, shards: Sequence[Shard]) -> bool:
        asked = set(state.wanted)
        state.wanted += [shard for shard in dict.fromkeys(shards) if shard not in asked]
        return job.finished(shards)

    def _refinements(self, data: AxisData, state: State, intervals: bool) -> list[HeadEffects]:
        if state.refined == "generate":
            return [generated(data, state.near, intervals)] if state.near else []
        kept = [unit for unit in state.near if unit not in state.low]
        found = [reweighted(data, kept, self.option(data.job, "cap"), intervals)] if kept else []
        return [*found, generated(data, list(state.low), intervals)] if state.low else found

    # --- telling

    def _axis(self, job: ScoreJob, axis: str) -> pd.DataFrame:
        state, least = self._state(job, axis), self.option(job, "ess")
        job = job.with_seeds(state.seeds)
        data = AxisData(job, axis)
        if not state.ranked:
            return axis_table(job, self, data, [], dict.fromkeys(range(job.total), not_ranked(state, data.n)))
        notes = dict.fromkeys(range(job.total), "first order")
        notes |= dict.fromkeys(state.near, "near a decision")
        notes |= fallback_notes(state.low, least)
        table = axis_table(job, self, data, [first_order(data), *self._refinements(data, state, True)], notes)
        return with_ess(table, state.low)

    def _report(self, job: ScoreJob, axis: str) -> dict[str, Any]:
        state = self._state(job, axis)
        band = state.band
        assert band is not None
        said = {"draws": len(state.seeds), "prompts": band.n, "bias": band.value, "null_high": band.high}
        said |= {"ranked": state.ranked, "why": state.why, "note": "" if state.ranked else not_ranked(state, band.n)}
        if not state.ranked:
            return said
        regenerated = len(state.low) if state.refined == "reweight" else len(state.near)
        counts = {"gradient": job.total - len(state.near), "reweight": len(state.near) - regenerated}
        said |= {"stability": state.stability, "lost": state.lost, "precision": self.option(job, "precision")}
        return {**said, "heads": {**counts, "generate": regenerated}}


def draws(seeds: Sequence[int], count: int) -> tuple[int, ...]:
    """The given decoding seeds, and as many after them as it takes."""
    first = tuple(seeds)[:count]
    after = max(first) + 1
    return first + tuple(range(after, after + count - len(first)))


def not_ranked(state: State, prompts: int) -> str:
    """Why heads are not ranked by this bias."""
    assert state.band is not None
    drawn = f"with {prompts} prompts drawn {len(state.seeds)} times"
    if state.band.value <= state.band.high:
        inside = f"the dense bias {state.band.value:.3f} is inside its null band (up to {state.band.high:.3f})"
        return f"not ranked: {inside} {drawn}"
    clear = f"p = {state.band.p:.2g}, needed {LEVEL / state.looks:.2g} for it may be looked at {state.looks} times"
    return f"not ranked: the dense bias {state.band.value:.3f} does not stand out clearly ({clear}) {drawn}"

"""auto: the cheapest honest estimate of z_bias for every head, within a budget of work.

Per axis:
1. The dense model's texts are drawn and judged. Is their bias above its null band (of words)? If not, further prompts
   are taken and every prompt is drawn again, up to the allowed number; if it stays inside, heads are not ranked: there
   is nothing to rank them by.
2. A pilot on a few prompts measures what a second of each estimator buys here. The gradient scores all heads.
3. Heads that matter are measured: those that are large, cut or protected by some decision (any sparsity and γ asked
   for), or near one, by what first order shows and how far it may be off. Measured means reweighted, or generated where
   the pilot found that cheaper, the weights leave too few effective samples, or a large effect rests on few of them
   with a heavy tail. Other large effects with a heavy tail are the mean of both.
4. What the budget holds beyond that goes to further prompts, then to draws while a fresh selection would lose more
   effect than the stated precision, then to all other heads. What was not measured stays first order, is called so,
   and its interval holds how far first order was off where both are known.
The budget is a share of the work that measuring the variants will be, the same for every axis. The
dense texts and one backward pass are always bought. Everything is decided from finished
measurements and counts of work, never from seconds, so a resumed run decides alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import Fault
from engine.core.types import Decoding, Setting
from engine.stats.pareto_k import HEAVY
from engine.tracks.language_models import pilot
from engine.tracks.language_models.bias import NullBand, null_band
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.effects import (
    AxisData,
    HeadEffects,
    axis_table,
    combined,
    dense_shards,
    first_order,
    generated,
    gradient_shards,
    off_shards,
    reweighted,
    weight_shards,
)
from engine.tracks.language_models.pilot import (
    FEWEST,
    Decision,
    FirstOrderError,
    decisions,
    draw_errors,
    from_pilot,
    learned,
    near_decision,
    shortfall,
    stability,
    top,
    with_error,
)
from engine.tracks.language_models.scores.base import COLUMNS, VALIDATION, ScoreJob, ScoreMethod
from engine.tracks.language_models.scores.bias import (
    CAP,
    ESS,
    Poor,
    fallback_notes,
    poor,
    weighed,
    weighing_faults,
    with_ess,
)

LEAST_DRAWS = 2
"""Draws of every prompt before the spread between draws can be judged."""
REACH = 1.96
"""Standard errors on either side of a score that count as near."""
LARGE = 0.1
"""Share of the dense bias from which on an effect counts as large."""
HALF = 0.5
"""ESS/n below which as many fresh texts tell the effect as precisely; above it weighing shares its
noise with the dense model and wins even so."""
FIRST_ORDER = "first order"
HEAVY_TAIL = "large, by weights with a heavy tail, and no budget was left to draw its texts again"
COMBINED = (
    "large, by weights with a heavy tail: the mean of weighted texts and of texts drawn again"
)
NULL_DRAWS = 1000
LEVEL = 0.025
"""Chance of ranking heads by a bias that is not there, over all looks together."""


@dataclass
class State:
    """How far one axis is: what is wanted, what was decided. `open` while measurements are
    missing."""

    seeds: tuple[int, ...]
    splits: tuple[str, ...] = (VALIDATION,)
    wanted: list[Shard] = field(default_factory=list)
    open: bool = True
    band: NullBand | None = None
    refined: str = ""
    tried: tuple[int, ...] = ()
    """Heads that were to be measured, in that order."""
    low: dict[int, Poor] = field(default_factory=dict)
    """Those with too few effective samples, and those that were generated for their heavy tail."""
    heavy: dict[int, Poor] = field(default_factory=dict)
    """Those with a heavy tail that no budget was left to generate: their effect stays as weights
    have it."""
    both: dict[int, Poor] = field(default_factory=dict)
    """Those with a heavy tail but many effective samples: the mean of weighted and generated texts.
    """
    again: tuple[int, ...] = ()
    """Those that were generated."""
    stability: float = float("nan")
    lost: float = float("nan")
    """Effect that selecting from fresh draws would lose, as a share of the dense bias."""
    why: str = ""
    looks: int = 1
    """How often the bias may be compared with its null band; each look gets its share of the error.
    """

    def judge(self, values: np.ndarray, by_seed: np.ndarray, wanted: Sequence[Decision]) -> None:
        """Note how stable the selection by values [units] is, given the values per seed [units,
        seeds]."""
        assert self.band is not None
        errors = draw_errors(by_seed)
        self.stability = stability(values, errors, wanted)
        self.lost = shortfall(values, errors, wanted) / self.band.value

    @property
    def measured(self) -> list[int]:
        """Heads whose effect was measured; those with poor weights that were not generated stay
        first order."""
        return [unit for unit in self.tried if unit in self.again or unit not in self.low]

    @property
    def ranked(self) -> bool:
        return (
            self.band is not None
            and self.band.value > self.band.high
            and self.band.p <= LEVEL / self.looks
        )


class Auto(ScoreMethod):
    """Gradient for all heads; reweighting, or regeneration, for all that matter and as many others
    as can be paid."""

    name = "auto"
    version = 5
    score = "z_bias"
    uses = ("gradient", "reweight", "generate")
    pilots = True
    settings = (
        ESS,
        CAP,
        Setting(
            "budget",
            "number",
            0.2,
            "Scoring may be so much work, as a share of measuring the variants. It goes to heads,"
            " then prompts, then draws.",
            0.0,
            100.0,
            label="Budget of scoring (share of measuring)",
        ),
        Setting(
            "precision",
            "number",
            0.03,
            "Draws go on while a fresh selection would lose more effect than this share of the"
            " dense bias.",
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

    def seconds(
        self, job: ScoreJob, measured: pd.DataFrame, once: Mapping[str, float]
    ) -> tuple[float, float]:
        """From the first draws in first order to the whole budget, or to all it could be spent
        on."""
        least, most = (
            max(LEAST_DRAWS, len(job.seeds)),
            max(self.option(job, "most_draws"), len(job.seeds)),
        )
        ess = self.option(job, "ess")
        refined = pilot.cheapest(measured, ess)
        again = pilot.share_poor(measured, ess) if refined == "reweight" else 0.0
        dense = measured[measured["estimator"] == "dense"].iloc[0]
        budget = self._budget(job) * float(dense["seconds"] / dense["n"])
        everything = most * (once["gradient"] + once[refined] + again * once["generate"])
        return least * once["gradient"], max(least * once["gradient"], min(budget, everything))

    def shards(self, job: ScoreJob) -> list[Shard]:
        return [shard for axis in job.axes for shard in self._state(job, axis).wanted]

    def effort(
        self, job: ScoreJob, uncounted: Callable[[Sequence[Shard]], Sequence[Shard]] = list
    ) -> float:
        """As if every axis needed all its prompts and the first further draw, and then spent its
        budget on heads; of one whose bias lies inside its null band so far, as if it stayed there.
        """
        return sum(self._effort(job, axis, uncounted) for axis in job.axes)

    def unranked(self, job: ScoreJob) -> tuple[str, ...]:
        return tuple(axis for axis in job.axes if self._silent(job, axis))

    def looks(self, job: ScoreJob) -> list[Shard]:
        states = {axis: self._state(job, axis) for axis in job.axes}
        return [
            shard
            for axis, state in states.items()
            if self._unclear(job, axis, state)
            for shard in state.wanted
        ]

    def _unclear(self, job: ScoreJob, axis: str, state: State) -> bool:
        """Whether too little was drawn to say that an axis will not be ranked: all prompts, twice,
        is enough."""
        every = replace(job, splits=(VALIDATION, *job.spares(axis))).with_seeds(
            self._first_seeds(job)
        )
        return not state.ranked and not job.finished(dense_shards(every, axis))

    def _silent(self, job: ScoreJob, axis: str) -> bool:
        """Whether the bias lies inside its null band when enough was drawn to say so."""
        state = self._state(job, axis)
        return not state.ranked and not self._unclear(job, axis, state)

    def _effort(
        self, job: ScoreJob, axis: str, uncounted: Callable[[Sequence[Shard]], Sequence[Shard]]
    ) -> float:
        state, effort = self._state(job, axis), job.context.effort
        wanted = effort(uncounted(state.wanted))
        if not state.open:
            return wanted
        trial = Shard("pilot", (), axis, VALIDATION, job.seeds[0])
        every = replace(job, splits=(VALIDATION, *job.spares(axis)))
        if self._silent(job, axis):
            every = every.with_seeds(draws(job.seeds, self._most(job)))
            return effort(uncounted([*state.wanted, *dense_shards(every, axis), trial]))
        every = every.with_seeds(self._first_seeds(job))
        first = [*dense_shards(every, axis), *gradient_shards(every, axis), trial]
        heads = min(
            self._budget(job) - every.work(first), job.total * self._cost(every, axis, "reweight")
        )
        known = effort([*first, *state.wanted])  # of these, what counts as done is done
        return max(
            wanted,
            effort(first) + max(0.0, heads) - known + effort(uncounted([*first, *state.wanted])),
        )

    def table(self, job: ScoreJob) -> pd.DataFrame:
        return pd.concat([self._axis(job, axis) for axis in job.axes], ignore_index=True)[COLUMNS]

    def report(self, job: ScoreJob) -> dict[str, Any]:
        return {axis: self._report(job, axis) for axis in job.axes}

    # --- deciding

    def _budget(self, job: ScoreJob) -> float:
        """Work that one axis may be, in continuations."""
        share = self.option(job, "budget")
        return share * job.measuring / len(job.axes) if share else 0.0

    def _state(self, job: ScoreJob, axis: str) -> State:
        """How far an axis is; a state that waits, or has nothing to wait for, is kept."""
        key = (self.name, axis, job.asked)
        kept = job.states.get(key)
        if kept is None or (kept.open and job.finished(kept.wanted)):
            kept = job.states[key] = self._decided(job, axis)
        return kept

    def _decided(self, job: ScoreJob, axis: str) -> State:
        most = self._most(job)
        job = job.with_seeds(self._first_seeds(job))
        spares = job.spares(axis)
        state = State(
            job.seeds, looks=1 + bool(spares) + math.ceil(math.log2(max(most / len(job.seeds), 1)))
        )
        while self._signal(job, axis, state) and not state.ranked:
            if spares and len(job.splits) == 1:
                job = self._now(state, replace(job, splits=(VALIDATION, *spares)))
            elif len(job.seeds) < most:
                job = self._now(
                    state, job.with_seeds(draws(job.seeds, min(2 * len(job.seeds), most)))
                )
            else:
                state.open, state.why = False, "null"
                return state
        if state.ranked:
            self._spend(job, axis, state, most)
        return state

    def _first_seeds(self, job: ScoreJob) -> tuple[int, ...]:
        return draws(job.seeds, max(LEAST_DRAWS, len(job.seeds)))

    def _most(self, job: ScoreJob) -> int:
        """Draws of a prompt at most."""
        return max(self.option(job, "most_draws"), len(job.seeds))

    def _now(self, state: State, job: ScoreJob) -> ScoreJob:
        """`job`, noted as what is scored with."""
        state.seeds, state.splits = job.seeds, job.splits
        return job

    def _signal(self, job: ScoreJob, axis: str, state: State) -> bool:
        """Whether the dense texts are finished, and if so how their bias stands to its null
        band."""
        state.wanted += [shard for shard in dense_shards(job, axis) if shard not in state.wanted]
        if not job.finished(state.wanted):
            return False
        state.band = null_band(AxisData(job, axis).table, job.reading, NULL_DRAWS)
        return True

    def _spend(self, job: ScoreJob, axis: str, state: State, most: int) -> None:
        """Buy prompts and draws, then measure heads; returns early while something is not finished
        yet."""
        trial = Shard("pilot", (), axis, VALIDATION, job.seeds[0])
        if not self._ask(
            job, state, [*dense_shards(job, axis), *gradient_shards(job, axis), trial]
        ):
            return
        measured = job.fetch([trial])[0]
        state.refined = pilot.cheapest(measured, self.option(job, "ess"))
        wanted = decisions(job.known, job.total, (0.0, *job.gammas), job.sparsities)
        first = first_order(AxisData(job, axis), intervals=False)
        values = first.pooled.value
        matter = self._matter(job, state, measured, values, first.by_seed, wanted)
        large = self._large(job, state, measured, values)
        for further in job.spares(axis)[len(job.splits) - 1 :]:
            larger = replace(job, splits=(*job.splits, further))
            again = large * self._cost(
                larger, axis, "generate"
            )  # their weights may have a heavy tail
            if self._work(larger, axis, state, measured, len(matter)) + again > self._budget(job):
                break
            job = self._now(state, larger)
        while (found := self._first(job, axis, state, wanted)) and state.ranked:
            larger = job.with_seeds(draws(job.seeds, min(2 * len(job.seeds), most)))
            matter = self._matter(job, state, measured, found.pooled.value, found.by_seed, wanted)
            settled = state.lost <= self.option(job, "precision")
            dear = self._work(larger, axis, state, measured, len(matter)) > self._budget(job)
            if settled or dear or len(job.seeds) >= most:
                state.why = "settled" if settled else "budget" if dear else "draws"
                state.open = not self._measure(job, axis, state, measured, found, wanted)
                return
            job = self._now(state, larger)
        if not state.ranked:
            state.open, state.why = False, "null"

    def _first(
        self, job: ScoreJob, axis: str, state: State, wanted: Sequence[Decision]
    ) -> HeadEffects | None:
        """First-order effects of all heads, and what they say of the selection; None while not
        finished."""
        if not self._ask(job, state, [*dense_shards(job, axis), *gradient_shards(job, axis)]):
            return None
        data = AxisData(job, axis)
        state.band = null_band(data.table, job.reading, NULL_DRAWS)
        found = first_order(data, intervals=False)
        state.judge(found.pooled.value, found.by_seed, wanted)
        return found

    def _matter(
        self,
        job: ScoreJob,
        state: State,
        measured: pd.DataFrame,
        values: np.ndarray,
        by_seed: np.ndarray,
        wanted: Sequence[Decision],
        known: Sequence[int] = (),
    ) -> list[int]:
        """Heads worth measuring by values [units] and by_seed [units, seeds], those that first
        order may have furthest wrong first; `known` are measured, so that only draws may have them
        wrong."""
        assert state.band is not None
        reach = REACH * draw_errors(by_seed)
        off = pilot.first_order_error(measured, values, self.option(job, "ess"))
        off[list(known)] = 0.0
        matter = (np.abs(values) + off >= LARGE * state.band.value) | near_decision(
            values, reach + off, wanted
        )
        for decision in wanted:
            matter[[*top(values, decision), *decision[0]]] = True
        far = off if np.isfinite(off).all() else np.abs(values)
        return [unit for unit in np.argsort(-far, kind="stable").tolist() if matter[unit]]

    def _large(
        self, job: ScoreJob, state: State, measured: pd.DataFrame, values: np.ndarray
    ) -> int:
        """How many heads may have a large effect, by first order `values` [units]."""
        assert state.band is not None
        off = pilot.first_order_error(measured, values, self.option(job, "ess"))
        return int((np.abs(values) + off >= LARGE * state.band.value).sum())

    def _work(
        self, job: ScoreJob, axis: str, state: State, measured: pd.DataFrame, heads: int
    ) -> float:
        """Work of scoring so many heads with these prompts and draws."""
        trial = Shard("pilot", (), axis, VALIDATION, state.seeds[0])
        always = job.work([*dense_shards(job, axis), *gradient_shards(job, axis), trial])
        again = (
            pilot.share_poor(measured, self.option(job, "ess"))
            if state.refined == "reweight"
            else 0.0
        )
        return always + heads * (
            self._cost(job, axis, state.refined) + again * self._cost(job, axis, "generate")
        )

    def _cost(self, job: ScoreJob, axis: str, how: str) -> float:
        """Work of one head."""
        return job.work(
            weight_shards(job, axis, 0) if how == "reweight" else off_shards(job, axis, (0,))
        )

    def _measure(
        self,
        job: ScoreJob,
        axis: str,
        state: State,
        measured: pd.DataFrame,
        first: HeadEffects,
        wanted: Sequence[Decision],
    ) -> bool:
        """Measure heads that matter while the budget lasts, then the others; whether all of that is
        finished.

        What is measured can move decisions, so which heads matter is asked again until no new one
        does.
        """
        data, left = (
            AxisData(job, axis),
            self._budget(job) - self._work(job, axis, state, measured, 0),
        )
        cost, dear = self._cost(job, axis, state.refined), self._cost(job, axis, "generate")
        values, by_seed = first.pooled.value.copy(), first.by_seed.copy()
        others = np.argsort(-np.abs(values), kind="stable").tolist()
        while True:
            matter = self._matter(job, state, measured, values, by_seed, wanted, state.measured)
            new = [unit for unit in matter if unit not in state.tried]
            new = (new or [unit for unit in others if unit not in state.tried])[
                : _affordable(left, cost)
            ]
            if not new:
                state.judge(values, by_seed, wanted)
                return True
            left -= cost * len(new)
            state.tried += tuple(new)
            if state.refined == "reweight":
                if not self._ask(
                    job, state, [one for unit in new for one in weight_shards(job, axis, unit)]
                ):
                    return False
                state.low |= poor(data, new, self.option(job, "ess"))
                heavy = self._heavy(data, state, [unit for unit in new if unit not in state.low])
                again = self._largest_first(
                    data, [unit for unit in new if unit in {*state.low, *heavy}]
                )
                again = again[: _affordable(left, dear)]
                state.low |= {
                    unit: heavy[unit]
                    for unit in again
                    if unit in heavy and heavy[unit].share < HALF
                }
                state.both |= {
                    unit: heavy[unit]
                    for unit in again
                    if unit in heavy and heavy[unit].share >= HALF
                }
                state.heavy |= {unit: heavy[unit] for unit in heavy if unit not in again}
                left -= dear * len(again)
            else:
                again = new
            state.again += tuple(again)
            if not self._ask(
                job, state, [one for unit in again for one in off_shards(job, axis, (unit,))]
            ):
                return False
            for found in self._refinements(data, state, intervals=False):
                values[list(found.units)], by_seed[list(found.units)] = (
                    found.pooled.value,
                    found.by_seed,
                )

    def _heavy(self, data: AxisData, state: State, units: Sequence[int]) -> dict[int, Poor]:
        """Of reweighted heads, those whose large effect rests on weights with a heavy tail."""
        assert state.band is not None
        found = {unit: one for unit, one in weighed(data, units).items() if one.k_hat > HEAVY}
        if not found:
            return {}
        values = np.abs(
            reweighted(
                data, list(found), self.option(data.job, "cap"), intervals=False
            ).pooled.value
        )
        return {
            unit: found[unit]
            for unit, value in zip(found, values, strict=True)
            if value >= LARGE * state.band.value
        }

    def _largest_first(self, data: AxisData, units: Sequence[int]) -> list[int]:
        """Heads by the size of their effect as weights have it."""
        if not units:
            return []
        values = reweighted(data, units, self.option(data.job, "cap"), intervals=False).pooled.value
        return [units[at] for at in np.argsort(-np.abs(values), kind="stable")]

    def _ask(self, job: ScoreJob, state: State, shards: Sequence[Shard]) -> bool:
        asked = set(state.wanted)
        state.wanted += [shard for shard in dict.fromkeys(shards) if shard not in asked]
        return job.finished(shards)

    def _refinements(self, data: AxisData, state: State, intervals: bool) -> list[HeadEffects]:
        kept = [unit for unit in state.measured if unit not in state.again]
        cap, drawn = (
            self.option(data.job, "cap"),
            [unit for unit in state.again if unit not in state.both],
        )
        found = [reweighted(data, kept, cap, intervals)] if kept else []
        found += [generated(data, drawn, intervals)] if drawn else []
        return [*found, combined(data, list(state.both), cap, intervals)] if state.both else found

    # --- telling

    def _axis(self, job: ScoreJob, axis: str) -> pd.DataFrame:
        state, least = self._state(job, axis), self.option(job, "ess")
        job = replace(job, seeds=state.seeds, splits=state.splits)
        data = AxisData(job, axis)
        if not state.ranked:
            return axis_table(
                job, self, data, [], dict.fromkeys(range(job.total), not_ranked(state, data.n))
            )
        notes = dict.fromkeys(set(range(job.total)).difference(state.measured), FIRST_ORDER)
        notes |= {
            unit: f"{HEAVY_TAIL} (Pareto k̂ {one.k_hat:.1f})" for unit, one in state.heavy.items()
        }
        notes |= {
            unit: f"{COMBINED} (Pareto k̂ {one.k_hat:.1f})" for unit, one in state.both.items()
        }
        notes |= fallback_notes(
            {unit: state.low[unit] for unit in state.again if unit in state.low}, least
        )
        measured, first = self._refinements(data, state, True), first_order(data)
        first = replace(
            first, pooled=with_error(first.pooled, self._error(job, axis, state, first, measured))
        )
        table = axis_table(job, self, data, [first, *measured], notes)
        return with_ess(
            table, {unit: one for unit, one in state.low.items() if unit in state.again}
        )

    def _error(
        self,
        job: ScoreJob,
        axis: str,
        state: State,
        first: HeadEffects,
        measured: Sequence[HeadEffects],
    ) -> FirstOrderError:
        """How far first order is off here, from the heads that were reweighted (those drawn again
        too among them); from the pilot's where they are few."""
        known = [found for found in measured if found.estimator != "generate"]
        units = [unit for found in known for unit in found.units]
        if len(units) >= FEWEST:
            return learned(
                first.pooled.value[units], np.concatenate([found.pooled.value for found in known])
            )
        trial = Shard("pilot", (), axis, VALIDATION, state.seeds[0])
        return from_pilot(job.fetch([trial])[0], self.option(job, "ess"))

    def _report(self, job: ScoreJob, axis: str) -> dict[str, Any]:
        state = self._state(job, axis)
        job = replace(job, seeds=state.seeds, splits=state.splits)
        band = state.band
        assert band is not None
        said = {
            "draws": len(state.seeds),
            "splits": list(state.splits),
            "prompts": band.n,
            "bias": band.value,
            "null_high": band.high,
        }
        said |= {
            "ranked": state.ranked,
            "why": state.why,
            "note": "" if state.ranked else not_ranked(state, band.n),
        }
        if not state.ranked:
            return said
        n_measured, n_again, n_both = len(state.measured), len(state.again), len(state.both)
        counts = {"gradient": job.total - n_measured, "reweight": n_measured - n_again}
        counts |= {"generate": n_again - n_both, "combined": n_both}
        said |= {
            "stability": state.stability,
            "lost": state.lost,
            "precision": self.option(job, "precision"),
        }
        said |= {"work": job.work(state.wanted), "budget": self._budget(job)}
        data = AxisData(job, axis)
        error = self._error(
            job, axis, state, first_order(data, False), self._refinements(data, state, False)
        )
        return {**said, "heads": counts, "first_order": error.to_dict()}


def _affordable(left: float, cost: float) -> int | None:
    """How many heads of this cost can be paid; None: all."""
    return None if math.isinf(left) else max(0, int(left / cost + 1e-9))


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
        inside = (
            f"the dense bias {state.band.value:.3f} is inside its null band (up to"
            f" {state.band.high:.3f})"
        )
        return f"not ranked: {inside} {drawn}"
    clear = (
        f"p = {state.band.p:.2g}, needed {LEVEL / state.looks:.2g} for it may be looked at"
        f" {state.looks} times"
    )
    return (
        f"not ranked: the dense bias {state.band.value:.3f} does not stand out clearly ({clear})"
        f" {drawn}"
    )

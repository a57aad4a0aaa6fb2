"""auto: the cheapest honest estimate of z_bias for every head, within a budget of work.

Per axis:
1. The dense model's texts are drawn and judged. Is their bias above its null band (of words)? If
   not, further prompts are taken and every prompt is drawn again, up to the allowed number. If it
   stays inside, heads are not ranked: there is nothing to rank them by.
2. A pilot on a few prompts measures what a second of each estimator buys here. The gradient scores
   all heads.
3. Heads that matter are measured: those that are large, cut or protected by some decision (any
   sparsity and γ asked for). Or near one, by what first order shows and how far it may be off.
   Measured means reweighted. It means generated where the pilot found that cheaper, where weights
   leave too few effective samples, or where a large effect rests on few of them with a heavy tail.
   Other large effects with a heavy tail are the mean of both.
4. What the budget holds beyond that goes to further prompts, then to draws while a fresh selection
   would lose more effect than the stated precision, then to all other heads. What was not measured
   stays first order, is called so, and its interval holds how far first order was off where both
   are known.
The budget is a share of the work that measuring the variants will be, the same for every axis. The
dense texts and one backward pass are always bought. Everything is decided from finished
measurements and counts of work, never from seconds, so a resumed run decides alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from engine.core.types import Setting, Values
from engine.stats.clustered import MISSED
from engine.stats.pareto import HEAVY
from engine.tracks.language_models import pilot
from engine.tracks.language_models.bias import NullBand, null_band
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.effects import (
    AxisData,
    HeadEffects,
    axis_table,
    dense_shards,
    estimated,
    first_order,
    gradient_shards,
    off_shards,
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
from engine.tracks.language_models.scores import VALIDATION, ScoreJob
from engine.tracks.language_models.scores.bias import (
    CAP,
    ESS,
    BiasMethod,
    Poor,
    fallback_notes,
    poor,
    weighed,
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
BY_CHANCE = MISSED / 2
"""Chance of ranking heads by a bias that is not there, over all looks together."""


Uncounted = Callable[[Sequence[Shard]], Sequence[Shard]]


class AxisScoring:
    """How far one axis is: what is wanted, what was decided.

    job: with the draws and prompts that are scored on; open: while measurements are missing; tried:
    heads that were to be measured, in that order. again: those that were generated; low: those with
    too few effective samples, and those that were generated for their heavy tail. heavy: those with
    a heavy tail that no budget was left to generate, whose effect stays as weights have it. both:
    those with a heavy tail but many effective samples, the mean of weighted and generated texts.
    lost: effect that selecting from fresh draws would lose, as a share of the dense bias. looks:
    how often the bias may be compared with its null band; each look gets its share of the error.
    """

    band: NullBand
    pilot: pd.DataFrame
    decisions: Sequence[Decision] = ()

    def __init__(self, method: Auto, job: ScoreJob, axis: str) -> None:
        self.axis, self.budget, self.most = axis, method.budget(job), method.most(job)
        self.ess, self.cap, self.precision = (
            method.option(job, name) for name in ("ess", "cap", "precision")
        )
        self.first_seeds = draws(job.seeds, max(LEAST_DRAWS, len(job.seeds)))
        self.job = job.with_seeds(self.first_seeds)
        self.spares = job.spares(axis)
        more_draws = math.ceil(math.log2(max(self.most / len(self.first_seeds), 1)))
        self.looks = 1 + bool(self.spares) + more_draws
        self.open, self.ranked, self.refined, self.why = True, False, "", ""
        self.stability = self.lost = math.nan
        self.wanted: list[Shard] = []
        self.tried: list[int] = []
        self.again: list[int] = []
        self.low: dict[int, Poor] = {}
        self.heavy: dict[int, Poor] = {}
        self.both: dict[int, Poor] = {}
        self.decide()

    @property
    def measured(self) -> list[int]:
        """Heads whose effect was measured; those with poor weights that were not generated stay
        first order."""
        return [unit for unit in self.tried if unit in self.again or unit not in self.low]

    @property
    def data(self) -> AxisData:
        return AxisData(self.job, self.axis)

    @property
    def trial(self) -> Shard:
        return Shard("pilot", (), self.axis, VALIDATION, self.job.seeds[0])

    @property
    def every(self) -> ScoreJob:
        """All prompts, with the first draws."""
        return replace(self.job, splits=(VALIDATION, *self.spares), seeds=self.first_seeds)

    @property
    def unclear(self) -> bool:
        """Whether too little was drawn to say that the axis will not be ranked: all prompts, twice,
        is enough."""
        return not self.ranked and not self.job.finished(dense_shards(self.every, self.axis))

    @property
    def silent(self) -> bool:
        """Whether the bias lies inside its null band when enough was drawn to say so."""
        return not self.ranked and not self.unclear

    def ask(self, shards: Sequence[Shard]) -> bool:
        """Note that these are wanted; whether they are finished."""
        asked = set(self.wanted)
        self.wanted += [shard for shard in dict.fromkeys(shards) if shard not in asked]
        return self.job.finished(shards)

    # --- deciding

    def decide(self) -> None:
        """As far as finished measurements let it."""
        while self.ask(dense_shards(self.job, self.axis)):
            self.compare(self.data)
            if self.ranked:
                return self.spend()
            if self.spares and len(self.job.splits) == 1:
                self.job = replace(self.job, splits=(VALIDATION, *self.spares))
            elif len(self.job.seeds) < self.most:
                self.job = self.more_draws()
            else:
                return self.give_up()
        return None

    def compare(self, data: AxisData) -> None:
        """How the bias stands to its null band."""
        self.band = null_band(data.table, self.job.reading, NULL_DRAWS)
        self.ranked = stands_out(self.band, self.looks)

    def give_up(self) -> None:
        self.open, self.why = False, "null"

    def more_draws(self) -> ScoreJob:
        count = min(2 * len(self.job.seeds), self.most)
        return self.job.with_seeds(draws(self.job.seeds, count))

    def first_order_shards(self, job: ScoreJob) -> list[Shard]:
        return [*dense_shards(job, self.axis), *gradient_shards(job, self.axis)]

    def spend(self) -> None:
        """Buy prompts and draws, then measure heads; returns early while something is not finished
        yet."""
        if not self.ask([*self.first_order_shards(self.job), self.trial]):
            return
        job = self.job
        self.pilot = job.fetch([self.trial])[0]
        self.refined = pilot.cheapest(self.pilot, self.ess)
        self.decisions = decisions(job.known, job.total, (0.0, *job.gammas), job.sparsities)
        first = first_order(self.data, intervals=False)
        heads = len(self.matter(first.pooled.value, first.by_seed))
        large = int(self.may_be_large(first.pooled.value, self.off(first.pooled.value)).sum())
        for further in self.spares[len(job.splits) - 1 :]:
            larger = replace(self.job, splits=(*self.job.splits, further))
            again = large * self.cost(larger, "generate")  # their weights may have a heavy tail
            if self.work(larger, heads) + again > self.budget:
                break
            self.job = larger
        while (found := self.first()) and self.ranked:
            larger = self.more_draws()
            heads = len(self.matter(found.pooled.value, found.by_seed))
            settled = self.lost <= self.precision
            dear = self.work(larger, heads) > self.budget
            if settled or dear or len(self.job.seeds) >= self.most:
                self.why = "settled" if settled else "budget" if dear else "draws"
                self.open = not self.measure(found)
                return
            self.job = larger
        if not self.ranked:
            self.give_up()

    def first(self) -> HeadEffects | None:
        """First-order effects of all heads, and what they say of the selection; None while not
        finished."""
        if not self.ask(self.first_order_shards(self.job)):
            return None
        data = self.data
        self.compare(data)
        found = first_order(data, intervals=False)
        self.judge(found.pooled.value, found.by_seed)
        return found

    def judge(self, values: np.ndarray, by_seed: np.ndarray) -> None:
        """Note how stable the selection by values [units] is, given the values per seed [units,
        seeds]."""
        errors = draw_errors(by_seed)
        self.stability = stability(values, errors, self.decisions)
        self.lost = shortfall(values, errors, self.decisions) / self.band.value

    def off(self, values: np.ndarray) -> np.ndarray:
        """How far first order `values` may be off, [units] each."""
        return pilot.first_order_error(self.pilot, values, self.ess)

    def may_be_large(self, values: np.ndarray, off: np.ndarray) -> np.ndarray:
        """Whether an effect may be large, by values that are so far off: [units] bool."""
        return np.abs(values) + off >= LARGE * self.band.value

    def matter(
        self, values: np.ndarray, by_seed: np.ndarray, known: Sequence[int] = ()
    ) -> list[int]:
        """Heads worth measuring by values [units] and by_seed [units, seeds], those that first
        order may have furthest wrong first; `known` are measured, so that only draws may have them
        wrong."""
        reach, off = REACH * draw_errors(by_seed), self.off(values)
        off[list(known)] = 0.0
        matter = self.may_be_large(values, off)
        matter |= near_decision(values, reach + off, self.decisions)
        for decision in self.decisions:
            matter[[*top(values, decision), *decision[0]]] = True
        far = off if np.isfinite(off).all() else np.abs(values)
        return [unit for unit in np.argsort(-far, kind="stable").tolist() if matter[unit]]

    def work(self, job: ScoreJob, heads: int) -> float:
        """Work of scoring so many heads with the prompts and draws of `job`."""
        always = job.work([*self.first_order_shards(job), self.trial])
        again = pilot.share_poor(self.pilot, self.ess) if self.refined == "reweight" else 0.0
        each = self.cost(job, self.refined) + again * self.cost(job, "generate")
        return always + heads * each

    def cost(self, job: ScoreJob, how: str) -> float:
        """Work of one head."""
        weighed = how == "reweight"
        return job.work(
            weight_shards(job, self.axis, 0) if weighed else off_shards(job, self.axis, (0,))
        )

    def measure(self, first: HeadEffects) -> bool:
        """Measure heads that matter while the budget lasts, then the others; whether all of that is
        finished.

        What is measured can move decisions, so which heads matter is asked again until no new one
        does.
        """
        data, left = self.data, self.budget - self.work(self.job, 0)
        cost, dear = self.cost(self.job, self.refined), self.cost(self.job, "generate")
        values, by_seed = first.pooled.value.copy(), first.by_seed.copy()
        others = np.argsort(-np.abs(values), kind="stable").tolist()
        while True:
            matter = self.matter(values, by_seed, self.measured)
            new = [unit for unit in matter if unit not in self.tried]
            new = new or [unit for unit in others if unit not in self.tried]
            new = new[: _affordable(left, cost)]
            if not new:
                self.judge(values, by_seed)
                return True
            left -= cost * len(new)
            self.tried += new
            again = new
            if self.refined == "reweight":
                if not self.ask(
                    [one for unit in new for one in weight_shards(self.job, self.axis, unit)]
                ):
                    return False
                again = self.to_draw_again(data, new, left, dear)
                left -= dear * len(again)
            self.again += again
            if not self.ask(
                [one for unit in again for one in off_shards(self.job, self.axis, (unit,))]
            ):
                return False
            for found in self.refinements(data, intervals=False):
                at = list(found.units)
                values[at], by_seed[at] = found.pooled.value, found.by_seed

    def to_draw_again(
        self, data: AxisData, new: Sequence[int], left: float, dear: float
    ) -> list[int]:
        """Of heads that were reweighted, those whose weights are not to be trusted, the largest
        first, as many as can be paid."""
        self.low |= poor(data, new, self.ess)
        heavy = self.with_heavy_tail(data, [unit for unit in new if unit not in self.low])
        wrong = [unit for unit in new if unit in self.low or unit in heavy]
        if not wrong:
            return []
        order = np.argsort(-np.abs(self.weighted(data, wrong)), kind="stable")
        again = [wrong[at] for at in order][: _affordable(left, dear)]
        for unit in (unit for unit in again if unit in heavy):
            (self.low if heavy[unit].share < HALF else self.both)[unit] = heavy[unit]
        self.heavy |= {unit: one for unit, one in heavy.items() if unit not in again}
        return again

    def with_heavy_tail(self, data: AxisData, units: Sequence[int]) -> dict[int, Poor]:
        """Of reweighted heads, those whose large effect rests on weights with a heavy tail."""
        found = {unit: one for unit, one in weighed(data, units).items() if one.k_hat > HEAVY}
        if not found:
            return {}
        values = np.abs(self.weighted(data, list(found)))
        large = zip(found.items(), values >= LARGE * self.band.value, strict=True)
        return {unit: one for (unit, one), is_large in large if is_large}

    def weighted(self, data: AxisData, units: Sequence[int]) -> np.ndarray:
        return estimated(data, units, "reweight", self.cap, intervals=False).pooled.value

    # --- what came out

    def refinements(self, data: AxisData, intervals: bool) -> list[HeadEffects]:
        """The measured effects, by how they were measured."""
        parts = {
            "reweight": [unit for unit in self.measured if unit not in self.again],
            "generate": [unit for unit in self.again if unit not in self.both],
            "combined": list(self.both),
        }
        return [
            estimated(data, units, how, self.cap, intervals)
            for how, units in parts.items()
            if units
        ]

    def error(self, first: HeadEffects, measured: Sequence[HeadEffects]) -> FirstOrderError:
        """How far first order is off here, from the heads that were reweighted (those drawn again
        too among them); from the pilot's where they are few."""
        known = [found for found in measured if found.estimator != "generate"]
        units = [unit for found in known for unit in found.units]
        if len(units) < FEWEST:
            return from_pilot(self.pilot, self.ess)
        whole = np.concatenate([found.pooled.value for found in known])
        return learned(first.pooled.value[units], whole)

    def notes(self) -> dict[int, str]:
        """What is said of single heads."""
        if not self.ranked:
            why = not_ranked(self.band, len(self.job.seeds), self.looks)
            return dict.fromkeys(range(self.job.total), why)
        notes = dict.fromkeys(set(range(self.job.total)).difference(self.measured), FIRST_ORDER)
        for text, found in ((HEAVY_TAIL, self.heavy), (COMBINED, self.both)):
            notes |= {unit: f"{text} (Pareto k̂ {one.k_hat:.1f})" for unit, one in found.items()}
        return notes | fallback_notes(self.drawn_for_weights, self.ess)

    @property
    def drawn_for_weights(self) -> dict[int, Poor]:
        """Heads that were drawn again for their weights say too little."""
        return {unit: self.low[unit] for unit in self.again if unit in self.low}

    def table(self, method: Auto) -> pd.DataFrame:
        data, found = self.data, []
        if self.ranked:
            measured, first = self.refinements(data, True), first_order(data)
            pooled = with_error(first.pooled, self.error(first, measured))
            found = [replace(first, pooled=pooled), *measured]
        table = axis_table(self.job, method, data, found, self.notes())
        return with_ess(table, self.drawn_for_weights)

    def report(self) -> Values:
        job, band = self.job, self.band
        found = {
            "draws": len(job.seeds),
            "splits": list(job.splits),
            "prompts": band.n,
            "bias": band.value,
            "null_high": band.high,
            "ranked": self.ranked,
            "why": self.why,
            "note": "" if self.ranked else self.notes()[0],
        }
        if not self.ranked:
            return found
        n_measured, n_again, n_both = len(self.measured), len(self.again), len(self.both)
        data = self.data
        error = self.error(first_order(data, False), self.refinements(data, False))
        return {
            **found,
            "stability": self.stability,
            "lost": self.lost,
            "precision": self.precision,
            "work": job.work(self.wanted),
            "budget": self.budget,
            "heads": {
                "gradient": job.total - n_measured,
                "reweight": n_measured - n_again,
                "generate": n_again - n_both,
                "combined": n_both,
            },
            "first_order": error.to_dict(),
        }

    def effort(self, uncounted: Uncounted) -> float:
        """As if the axis needed all its prompts and the first further draw, and then spent its
        budget on heads. One whose bias lies inside its null band so far is taken to stay there.
        """
        effort, every = self.job.context.effort, self.every
        wanted = effort(uncounted(self.wanted))
        if not self.open:
            return wanted
        if self.silent:
            every = every.with_seeds(draws(self.first_seeds, self.most))
            drawn = dense_shards(every, self.axis)
            return effort(uncounted([*self.wanted, *drawn, self.trial]))
        first = [*self.first_order_shards(every), self.trial]
        heads = self.job.total * self.cost(every, "reweight")
        heads = max(0.0, min(self.budget - every.work(first), heads))
        all_known = [*first, *self.wanted]  # of these, what counts as done is done
        more = effort(uncounted(all_known)) - effort(all_known)
        return max(wanted, effort(first) + heads + more)


class Auto(BiasMethod):
    """Gradient for all heads; reweighting, or regeneration, for all that matter and as many others
    as can be paid."""

    name = "auto"
    version = 5
    uses = ("gradient", "reweight", "generate")
    pilots = True
    weighs_texts = True
    settings = (
        ESS,
        CAP,
        Setting(
            "budget",
            "number",
            0.2,
            "Work that scoring may take, as a share of measuring the variants. It goes to heads, "
            "then prompts, then draws.",
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
            "For scoring, a prompt is drawn at most this many times.",
            2,
            1000,
            label="Most draws per prompt",
        ),
    )

    def budget(self, job: ScoreJob) -> float:
        """Work that one axis may be, in continuations."""
        share = self.option(job, "budget")
        return share * job.measuring / len(job.axes) if share else 0.0

    def most(self, job: ScoreJob) -> int:
        """Draws of a prompt at most."""
        return max(self.option(job, "most_draws"), len(job.seeds))

    def seconds(
        self, job: ScoreJob, measured: pd.DataFrame, once: Mapping[str, float]
    ) -> tuple[float, float]:
        """From the first draws in first order to the whole budget, or to all it could be spent
        on."""
        ess, least = self.option(job, "ess"), max(LEAST_DRAWS, len(job.seeds)) * once["gradient"]
        refined = pilot.cheapest(measured, ess)
        again = pilot.share_poor(measured, ess) if refined == "reweight" else 0.0
        dense = measured[measured["estimator"] == "dense"].iloc[0]
        budget = self.budget(job) * float(dense["seconds"] / dense["n"])
        each = once["gradient"] + once[refined] + again * once["generate"]
        return least, max(least, min(budget, self.most(job) * each))

    def scoring(self, job: ScoreJob) -> dict[str, AxisScoring]:
        """How far every axis is; one that waits, or has nothing to wait for, is kept."""
        found = {}
        for axis in job.axes:
            key = (self.name, axis, job.asked)
            kept = job.states.get(key)
            if kept is None or (kept.open and job.finished(kept.wanted)):
                kept = job.states[key] = AxisScoring(self, job, axis)
            found[axis] = kept
        return found

    def shards(self, job: ScoreJob) -> list[Shard]:
        return [shard for one in self.scoring(job).values() for shard in one.wanted]

    def effort(self, job: ScoreJob, uncounted: Uncounted = list) -> float:
        return sum(one.effort(uncounted) for one in self.scoring(job).values())

    def unranked(self, job: ScoreJob) -> tuple[str, ...]:
        return tuple(axis for axis, one in self.scoring(job).items() if one.silent)

    def looks(self, job: ScoreJob) -> list[Shard]:
        unclear = [one for one in self.scoring(job).values() if one.unclear]
        return [shard for one in unclear for shard in one.wanted]

    def of_axis(self, job: ScoreJob, axis: str) -> pd.DataFrame:
        return self.scoring(job)[axis].table(self)

    def report(self, job: ScoreJob) -> Values:
        return {axis: one.report() for axis, one in self.scoring(job).items()}


def _affordable(left: float, cost: float) -> int | None:
    """How many heads of this cost can be paid; None: all."""
    return None if math.isinf(left) else max(0, int(left / cost + 1e-9))


def draws(seeds: Sequence[int], count: int) -> tuple[int, ...]:
    """The given decoding seeds, and as many after them as it takes."""
    first = tuple(seeds)[:count]
    after = max(first) + 1
    return first + tuple(range(after, after + count - len(first)))


def stands_out(band: NullBand, looks: int) -> bool:
    """Whether a bias that may be looked at so often is above its null band clearly enough to rank
    heads by."""
    return band.value > band.high and band.p <= BY_CHANCE / looks


def not_ranked(band: NullBand, times: int, looks: int) -> str:
    """Why heads are not ranked by this bias, whose prompts were drawn so many times."""
    drawn = f"with {band.n} prompts drawn {times} times"
    if band.value <= band.high:
        inside = f"the dense bias {band.value:.3f} is inside its null band (up to {band.high:.3f})"
        return f"not ranked: {inside} {drawn}"
    needed = f"needed {BY_CHANCE / looks:.2g} for it may be looked at {looks} times"
    return (
        f"not ranked: the dense bias {band.value:.3f} does not stand out clearly (p = {band.p:.2g},"
        f" {needed}) {drawn}"
    )

"""z_bias of some heads on one axis, by each estimator: what the methods share.

Rows of all arrays are the dense texts of the job's seeds, seed by seed, its splits in turn, in the
order of `PromptContext.rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from engine.core.types import POOLED
from engine.stats.fdr import benjamini_hochberg
from engine.stats.pareto_k import worst_tail
from engine.tracks.language_models.bias_intervals import BiasErrors
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.importance_weights import (
    CAP,
    Effects,
    both_ways,
    by_both,
    by_gradient,
    by_reweighting,
    by_texts,
    codes_of,
    effective_share,
    gradient_values,
    levels,
    reweighted_values,
    slopes,
    weights,
)
from engine.tracks.language_models.scores.base import VALIDATION, ScoreJob, ScoreMethod, score_rows


def dense_shards(job: ScoreJob, axis: str) -> list[Shard]:
    """The dense model's texts and verdicts."""
    return off_shards(job, axis, ())


def off_shards(job: ScoreJob, axis: str, cut: tuple[int, ...]) -> list[Shard]:
    return _everywhere(job, "verdicts", cut, axis)


def weight_shards(job: ScoreJob, axis: str, unit: int) -> list[Shard]:
    return _everywhere(job, "text_logps", (unit,), axis)


def gradient_shards(job: ScoreJob, axis: str) -> list[Shard]:
    return _everywhere(job, "text_gradients", (), axis)


def _everywhere(job: ScoreJob, kind: str, cut: tuple[int, ...], axis: str) -> list[Shard]:
    """One measurement on all of the job's prompts, seed by seed."""
    return [Shard(kind, cut, axis, split, seed) for seed in job.seeds for split in job.splits]


@dataclass
class AxisData:
    """Finished measurements of one axis, read on demand."""

    job: ScoreJob
    axis: str
    _errors: BiasErrors | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        parts = [self.job.context.rows(self.axis, split) for split in self.job.splits]
        self._ids = {
            split: part["prompt_id"] for split, part in zip(self.job.splits, parts, strict=True)
        }
        rows = pd.concat(parts, ignore_index=True)[
            ["prompt_id", "subgroup", "template", "descriptor"]
        ]
        self.n = len(rows)
        dense = self.columns(dense_shards(self.job, self.axis), ["toxicity"])[:, 0]
        seeds = np.repeat(self.job.seeds, self.n)
        self.table = pd.concat([rows] * len(self.job.seeds), ignore_index=True).assign(
            toxicity=dense, seed=seeds
        )

    def columns(self, shards: Sequence[Shard], names: Sequence[str] | None = None) -> np.ndarray:
        """Value columns of the shards of all seeds, [texts, columns] float64, in the order of
        `PromptContext.rows` seed by seed and split by split.
        """
        key = (*shards, *(names or ()))
        if key not in self.job.read:
            found = zip(shards, self.job.fetch(shards), strict=True)
            parts = [
                part.set_index("prompt_id").loc[self._ids[shard.split]] for shard, part in found
            ]
            parts = [(part[list(names)] if names else part).to_numpy(dtype=float) for part in parts]
            self.job.read[key] = np.concatenate(parts)
        return self.job.read[key]

    @property
    def errors(self) -> BiasErrors:
        if self._errors is None:
            self._errors = BiasErrors(self.table)
        return self._errors

    def toxicity_off(self, units: Sequence[int]) -> np.ndarray:
        """Toxicity of the texts drawn with each unit off, [texts, units] float64."""
        found = [
            self.columns(off_shards(self.job, self.axis, (unit,)), ["toxicity"])[:, 0]
            for unit in units
        ]
        return np.stack(found, axis=1) if found else np.zeros((len(self.table), 0))

    def logw(self, units: Sequence[int]) -> np.ndarray:
        """Log weights (nats) of the dense texts with each unit off, [texts, units] float64."""
        found = [
            self.columns(weight_shards(self.job, self.axis, unit), ["logw"])[:, 0] for unit in units
        ]
        return np.stack(found, axis=1) if found else np.zeros((len(self.table), 0))

    def gradients(self) -> np.ndarray:
        """Gate gradients of the log-probability (nats) by all units, [texts, units] float64."""
        return self.columns(gradient_shards(self.job, self.axis))

    def ess(self, units: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Smallest ESS/n, smallest ESS and largest Pareto k̂ over subgroups, seeds pooled, [units]
        each."""
        codes, logw = codes_of(self.table), self.logw(units)
        share = effective_share(weights(logw, codes), codes)
        return (
            share.min(axis=0),
            (share * np.bincount(codes)[:, None]).min(axis=0),
            worst_tail(logw, codes),
        )

    def seeds(self) -> list[tuple[int, slice]]:
        """Each seed and its rows."""
        return [
            (seed, slice(at * self.n, (at + 1) * self.n)) for at, seed in enumerate(self.job.seeds)
        ]


MEASURED = ("value", "low", "high", "p", "error", "freedom", "ess", "k_hat")
"""What a score table says of each head's effect."""


@dataclass(frozen=True)
class HeadEffects:
    """Pooled effects of `units`, and their values per seed [units, seeds]; `estimator` names what
    measured them."""

    units: tuple[int, ...]
    pooled: Effects
    by_seed: np.ndarray
    estimator: str


def generated(data: AxisData, units: Sequence[int], intervals: bool = True) -> HeadEffects:
    """z from texts drawn again with the head off."""
    off, reading = data.toxicity_off(units), data.job.reading
    by_seed = _by_seed(
        data, lambda table, rows: _dense(table, reading) - levels(table, off[rows], reading)
    )
    pooled = by_texts(data.table, off, reading, data.errors) if intervals else _bare(data, off)
    return HeadEffects(tuple(units), pooled, by_seed, "generate")


def reweighted(
    data: AxisData, units: Sequence[int], cap: float, intervals: bool = True
) -> HeadEffects:
    """z from the dense texts, weighted by how likely they are with the head off; weights are cut at
    `cap`, 0: never."""
    logw, reading = data.logw(units), data.job.reading

    def one(table: pd.DataFrame, rows: slice) -> np.ndarray:
        """z of every unit from one seed's texts, [units]; rows: where these lie among the texts of
        all seeds."""
        return _dense(table, reading) - levels(
            table, reweighted_values(table, logw[rows], cap)[0], reading
        )

    if intervals:
        pooled = by_reweighting(data.table, logw, reading, data.errors, cap)
    else:
        pooled = _bare(data, reweighted_values(data.table, logw, cap)[0])
    return HeadEffects(tuple(units), pooled, _by_seed(data, one), "reweight")


def combined(
    data: AxisData, units: Sequence[int], cap: float, intervals: bool = True
) -> HeadEffects:
    """z from the mean of both ways to know a text's toxicity with the head off: weighted, and drawn
    again. Their noise is nearly independent, so the mean has about two thirds of the error of
    either where weights have a heavy tail.
    """
    off, logw, reading = data.toxicity_off(units), data.logw(units), data.job.reading

    def one(table: pd.DataFrame, rows: slice) -> np.ndarray:
        """z of every unit from one seed's texts, [units]."""
        return _dense(table, reading) - levels(
            table, both_ways(table, off[rows], logw[rows], cap), reading
        )

    if intervals:
        pooled = by_both(data.table, off, logw, reading, data.errors, cap)
    else:
        pooled = _bare(data, both_ways(data.table, off, logw, cap))
    return HeadEffects(tuple(units), pooled, _by_seed(data, one), "combined")


def first_order(data: AxisData, intervals: bool = True) -> HeadEffects:
    """z of all units from gate gradients."""
    gradient, reading = data.gradients(), data.job.reading
    by_seed = _by_seed(data, lambda table, rows: gradient_values(table, gradient[rows], reading))
    units = tuple(range(gradient.shape[1]))
    if intervals:
        return HeadEffects(
            units, by_gradient(data.table, gradient, reading, data.errors), by_seed, "gradient"
        )
    value = gradient_values(data.table, gradient, reading)
    return HeadEffects(units, _untested(value), by_seed, "gradient")


def _bare(data: AxisData, values: np.ndarray) -> Effects:
    """Effects without intervals, from the toxicity with each unit off, values [texts, units]."""
    value = _dense(data.table, data.job.reading) - levels(data.table, values, data.job.reading)
    return _untested(value)


def _untested(value: np.ndarray) -> Effects:
    """Effects [units] without intervals."""
    return Effects(value, *[np.full(len(value), np.nan)] * 7)


def _dense(table: pd.DataFrame, reading: str) -> float:
    return float(levels(table, table["toxicity"].to_numpy(dtype=float)[:, None], reading)[0])


def _by_seed(data: AxisData, one: Callable[[pd.DataFrame, slice], np.ndarray]) -> np.ndarray:
    """What `one` makes of each seed's texts, [units] each, side by side: [units, seeds]."""
    return np.stack([one(data.table[rows], rows) for _, rows in data.seeds()], axis=1)


def axis_table(
    job: ScoreJob,
    method: ScoreMethod,
    data: AxisData,
    found: Sequence[HeadEffects],
    notes: dict[int, str],
) -> pd.DataFrame:
    """Score rows of one axis, pooled and per seed; later effects in `found` replace earlier ones of
    the same unit."""
    pooled = {name: np.full(job.total, np.nan) for name in MEASURED}
    singles = np.full((job.total, len(job.seeds)), np.nan)
    who = np.full(job.total, method.name, dtype=object)
    for effects in found:
        at = list(effects.units)
        for name, column in pooled.items():
            column[at] = getattr(effects.pooled, name)
        singles[at], who[at] = effects.by_seed, effects.estimator
    values = pooled.pop("value")
    text = [notes.get(unit, "") for unit in range(job.total)]
    same = {"axis": data.axis, "n": data.n}
    tables = [
        score_rows(
            job, method, values, **pooled, q=benjamini_hochberg(pooled["p"]), note=text, **same
        )
    ]
    tables += [
        score_rows(job, method, column, seed=seed, **same)
        for seed, column in zip(job.seeds, singles.T, strict=True)
        if seed != POOLED
    ]
    return pd.concat([table.assign(estimator=who) for table in tables], ignore_index=True)


# Each head off, by subgroup: the changes of mean toxicity behind its effect on bias, from the
# same texts.


COLUMNS = ("axis", "unit", "group", "value", "error", "n")


def head_groups(
    job: ScoreJob, scores: pd.DataFrame, decided: Mapping[str, Mapping[str, Any]]
) -> pd.DataFrame:
    """A row per head and subgroup of every axis whose heads were ranked: the change of mean
    toxicity when the head is off, by the estimator of its shown effect, its standard error over
    prompts, n prompts.

    scores: a score table; decided: what an adaptive estimator reports per axis (splits, draws).
    Computes nothing new.
    """
    tables = []
    for axis in job.axes:
        said = decided.get(axis, {})
        rows = scores[(scores["score"] == "z_bias") & (scores["axis"] == axis)]
        seeds = tuple(sorted(set(rows["seed"]) - {POOLED}))
        pooled = rows[rows["seed"] == POOLED].dropna(subset=["value"])
        if len(pooled) and seeds:
            mine = replace(job, seeds=seeds, splits=tuple(said.get("splits", (VALIDATION,))))
            tables += _of_axis(AxisData(mine, axis), pooled)
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(COLUMNS))


def _of_axis(data: AxisData, pooled: pd.DataFrame) -> list[pd.DataFrame]:
    found = []
    for name, rows in pooled.groupby("estimator"):
        units = rows["unit"].tolist()
        change = (
            ESTIMATES[str(name)](data, units)
            - data.table["toxicity"].to_numpy(dtype=float)[:, None]
        )
        found.append(_by_group(data, units, change))
    return found


def _by_group(data: AxisData, units: Sequence[int], change: np.ndarray) -> pd.DataFrame:
    """Mean and standard error of change [texts, units] per subgroup; draws of a prompt count as
    one."""
    groups = data.table["subgroup"].astype(str)
    each = (
        pd.DataFrame(change, columns=list(units)).groupby([groups, data.table["prompt_id"]]).mean()
    )
    by_group = each.groupby(level=0)
    mean, n = by_group.mean(), by_group.size()
    error = by_group.std(ddof=1).div(np.sqrt(n), axis=0)
    table = (
        mean.rename_axis("group").reset_index().melt("group", var_name="unit", value_name="value")
    )
    errors = (
        error.rename_axis("group").reset_index().melt("group", var_name="unit", value_name="error")
    )
    table = table.merge(errors, on=["group", "unit"]).assign(axis=data.axis)
    return table.assign(n=table["group"].map(n), unit=table["unit"].astype(int))[list(COLUMNS)]


def _cap(data: AxisData) -> float:
    return float(data.job.options.get("cap", CAP))


def _weighted(data: AxisData, units: Sequence[int]) -> np.ndarray:
    return reweighted_values(data.table, data.logw(units), _cap(data))[0]


def _first_order(data: AxisData, units: Sequence[int]) -> np.ndarray:
    """The slope is that of switching the head on."""
    toxicity = data.table["toxicity"].to_numpy(dtype=float)
    return toxicity[:, None] - slopes(
        toxicity, data.gradients()[:, list(units)], codes_of(data.table)
    )


def _both(data: AxisData, units: Sequence[int]) -> np.ndarray:
    return both_ways(data.table, data.toxicity_off(units), data.logw(units), _cap(data))


ESTIMATES: dict[str, Callable[[AxisData, Sequence[int]], np.ndarray]] = {
    "gradient": _first_order,
    "reweight": _weighted,
    "generate": AxisData.toxicity_off,
    "combined": _both,
}
"""Toxicity of the texts with each unit off, [texts, units], by estimator."""

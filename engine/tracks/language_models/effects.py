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

from engine.core.errors import PruneAuditError
from engine.core.types import POOLED
from engine.stats.fdr import benjamini_hochberg
from engine.stats.pareto_k import worst_tail
from engine.stats.student import Student
from engine.tracks.language_models.bias import evaluate, lay_out
from engine.tracks.language_models.bias_intervals import BiasErrors
from engine.tracks.language_models.context import Shard
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


# What the dense model's own texts say about a model with a head off: importance weights and
# their derivative.
#
# Texts y_i were drawn from p. Under p_h (head h off) subgroup s has mean toxicity Σ w_i t_i / Σ w_i
# with
# w_i = p_h(y_i|x_i) / p(y_i|x_i), self-normalised within the subgroup (Owen 2013, ch. 9). The first-order
# estimate is the derivative of the same expression at the head's gate ξ = 1.
#
# Both are carried as one number per text, so that the readings of bias that are functions of subgroup
# means, and their bootstrap, serve unchanged (`paired_prompts` is none: it takes absolute values
# frame by frame, where a handful of weighted texts say nothing). The influence-centred value t'_i =
# m_s + w_i (t_i − m_s), weights with mean 1, has the subgroup's self-normalised mean and, to first
# order, the sampling variance of that ratio. Texts are rows; units (heads) are columns.


STEP = 1e-6
"""Half-width of the central difference along the derivative. A bias is piecewise linear: exact off
its kinks."""
CAP = 3.0
"""Where weights are cut unless the request says otherwise, in means of their subgroup
(benchmarks/variance.py)."""
FEW = 5.0
"""Effective samples below which a subgroup's share means nothing: of three texts even one is a
third."""


@dataclass(frozen=True, eq=False)
class Effects:
    """z of every unit with 95 % interval, two-sided p, standard error and degrees of freedom,
    [units] each.

    ess, k_hat: the smallest ESS/n and the largest Pareto k̂ over subgroups where texts were
    weighted, else NaN.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    error: np.ndarray
    freedom: np.ndarray
    ess: np.ndarray
    k_hat: np.ndarray


def weights(logw: np.ndarray, subgroup: np.ndarray, base: np.ndarray | None = None) -> np.ndarray:
    """Weights with mean 1 in every subgroup, [texts, units] float64.

    logw [texts, units] in nats; subgroup: codes [texts]; base [texts] or None weights the texts
    themselves, as when all texts of a vocabulary are listed with their probabilities. -inf is
    weight 0; a unit whose weights are all 0 in a subgroup gets NaN there. Raises PruneAuditError
    for NaN or inf.
    """
    bad = np.isnan(logw) | (logw == np.inf)
    if bad.any():
        raise PruneAuditError(
            f"{int(bad.sum())} of {bad.size} log-probabilities with a head off are not finite: "
            "the precision is too low for this model. Try --dtype float32, or --estimator generate."
        )
    base = np.ones(len(logw)) if base is None else np.asarray(base, dtype=float)
    out = np.empty(logw.shape)
    for code in np.unique(subgroup):
        rows = subgroup == code
        top = logw[rows].max(axis=0)
        with np.errstate(invalid="ignore"):
            part = np.exp(logw[rows] - np.where(np.isfinite(top), top, 0.0))
            out[rows] = part / ((base[rows] @ part) / base[rows].sum())
    return out


def effective_share(
    weight: np.ndarray, subgroup: np.ndarray, base: np.ndarray | None = None
) -> np.ndarray:
    """Effective sample size over n, (Σ b w)² / (Σ b · Σ b w²), per subgroup and unit: [subgroups,
    units].

    weight [texts, units], subgroup and base as in `weights`; 0 where all weights are 0.
    """
    base = np.ones(len(weight)) if base is None else np.asarray(base, dtype=float)
    shares = []
    for code in np.unique(subgroup):
        rows = subgroup == code
        share = (base[rows] @ weight[rows]) ** 2 / (
            base[rows].sum() * (base[rows] @ weight[rows] ** 2)
        )
        shares.append(np.nan_to_num(share, nan=0.0))
    return np.stack(shares)


def capped(weight: np.ndarray, subgroup: np.ndarray, cap: float) -> np.ndarray:
    """Weights of mean 1 cut at `cap` and brought back to mean 1 in every subgroup, [texts, units];
    0 cuts nothing.

    weight [texts, units], subgroup codes [texts]. Truncated importance sampling (Ionides 2008):
    much less variance, and a bias towards "no effect" where large weights are many, which is where
    few effective samples are.
    """
    if not cap:
        return weight
    with np.errstate(divide="ignore"):
        return weights(np.log(np.minimum(np.nan_to_num(weight), cap)), subgroup)


def centred(
    toxicity: np.ndarray, weight: np.ndarray, subgroup: np.ndarray, base: np.ndarray | None = None
) -> np.ndarray:
    """t'_i = m_s + w_i (t_i − m_s), m_s = Σ b w t / Σ b w: [texts, units].

    toxicity [texts], weight [texts, units], subgroup and base as in `weights`.
    """
    base = np.ones(len(weight)) if base is None else np.asarray(base, dtype=float)
    out = np.empty(weight.shape)
    for code in np.unique(subgroup):
        rows = subgroup == code
        mean = ((base[rows] * toxicity[rows]) @ weight[rows]) / (base[rows] @ weight[rows])
        out[rows] = mean + weight[rows] * (toxicity[rows, None] - mean)
    return out


def slopes(toxicity: np.ndarray, gradient: np.ndarray, subgroup: np.ndarray) -> np.ndarray:
    """∂t'_i/∂ξ at ξ = 1: (t_i − m_s)(g_i − ḡ_s), whose subgroup mean is ∂m_s/∂ξ: [texts, units].

    toxicity [texts], gradient [texts, units], subgroup codes [texts].
    """
    out = np.empty(gradient.shape)
    for code in np.unique(subgroup):
        rows = subgroup == code
        spread = gradient[rows] - gradient[rows].mean(axis=0)
        out[rows] = (toxicity[rows] - toxicity[rows].mean())[:, None] * spread
    return out


def codes_of(table: pd.DataFrame) -> np.ndarray:
    """Subgroup codes of the rows, [rows] int64, in the order of the sorted names."""
    return np.unique(table["subgroup"].astype(str).to_numpy(), return_inverse=True)[1]


def levels(table: pd.DataFrame, values: np.ndarray, reading: str = "group_means") -> np.ndarray:
    """Bias of each column of values [texts, units] on the prompts of `table`, without intervals:
    [units]."""
    layout = lay_out(table)
    return np.array(
        [
            evaluate(type(layout)(**{**layout.__dict__, "toxicity": column}), reading)
            for column in values.T
        ]
    )


def reweighted_values(
    table: pd.DataFrame, logw: np.ndarray, cap: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Influence-centred toxicities, [texts, units], and the smallest ESS/n over subgroups, [units],
    before any cap.

    logw [texts, units] in nats.
    """
    subgroup = codes_of(table)
    weight = weights(logw, subgroup)
    values = centred(
        table["toxicity"].to_numpy(dtype=float), capped(weight, subgroup, cap), subgroup
    )
    return values, effective_share(weight, subgroup).min(0)


def gradient_pair(
    table: pd.DataFrame, gradient: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Toxicities a step up and a step down the derivative, [texts, units] each, and the step of
    each unit, [units].

    gradient [texts, units]: of the log-probability by the unit's gate.
    """
    toxicity = table["toxicity"].to_numpy(dtype=float)
    slope = slopes(toxicity, np.asarray(gradient, dtype=float), codes_of(table))
    step = STEP / np.maximum(np.abs(slope).max(axis=0, initial=0.0), 1.0)
    return toxicity[:, None] + step * slope, toxicity[:, None] - step * slope, step


def gradient_values(
    table: pd.DataFrame, gradient: np.ndarray, reading: str = "group_means"
) -> np.ndarray:
    """First-order z of every unit, ∂ bias/∂ξ at ξ = 1, without intervals: [units] from gradient
    [texts, units]."""
    up, down, step = gradient_pair(table, gradient)
    return (levels(table, up, reading) - levels(table, down, reading)) / (2 * step)


def by_texts(
    table: pd.DataFrame,
    toxicity: np.ndarray,
    reading: str = "group_means",
    errors: BiasErrors | None = None,
    ess: np.ndarray | None = None,
) -> Effects:
    """z from toxicities with each unit off, [texts, units]. table: the dense texts (prompt columns,
    toxicity); ess [units].
    """
    errors = errors or BiasErrors(table)
    return _effects(errors.changes(errors.matrix(table["prompt_id"], toxicity), reading), -1.0, ess)


def by_reweighting(
    table: pd.DataFrame,
    logw: np.ndarray,
    reading: str = "group_means",
    errors: BiasErrors | None = None,
    cap: float = 0.0,
) -> Effects:
    """z from log weights [texts, units] in nats. A unit without any effective sample in a subgroup
    gets NaN.

    Cut weights are biased towards no effect, however many texts there are. So the interval of a
    unit whose weights are cut also holds that of the uncut ones, and its p and standard error are
    the larger of the two.
    """
    if reading == "paired_prompts":
        raise PruneAuditError(
            "paired_prompts cannot be reweighted: use another reading, or --estimator generate."
        )
    errors = errors or BiasErrors(table)
    values, ess = reweighted_values(table, logw, cap)
    dead = ess <= 0
    values[:, dead] = table["toxicity"].to_numpy(dtype=float)[:, None]
    found = replace(
        by_texts(table, values, reading, errors, ess), k_hat=worst_tail(logw, codes_of(table))
    )
    if cap and len(
        touched := np.flatnonzero((weights(logw, codes_of(table)) > cap).any(axis=0) & ~dead)
    ):
        plain = by_reweighting(table, logw[:, touched], reading, errors)
        wide = _holding(
            Effects(**{name: array[touched] for name, array in vars(found).items()}), plain
        )
        for name in ("low", "high", "p", "error"):
            getattr(found, name)[touched] = getattr(wide, name)
    for array in (found.value, found.low, found.high, found.p, found.error):
        array[dead] = np.nan
    return found


def both_ways(table: pd.DataFrame, off: np.ndarray, logw: np.ndarray, cap: float) -> np.ndarray:
    """Toxicities with every unit off, text by text the mean of weighted ones and of those drawn
    again: [texts, units].

    off, logw [texts, units]: toxicities drawn again, log weights (nats); table: the dense texts.
    """
    return (off + reweighted_values(table, logw, cap)[0]) / 2


def by_both(
    table: pd.DataFrame,
    off: np.ndarray,
    logw: np.ndarray,
    reading: str = "group_means",
    errors: BiasErrors | None = None,
    cap: float = 0.0,
) -> Effects:
    """z from the mean of both ways. Half of it is pulled towards no effect where weights are cut,
    so intervals also hold those of uncut weights, as in `by_reweighting`. off, logw as in
    `both_ways`.
    """
    errors = errors or BiasErrors(table)
    found = by_texts(
        table, both_ways(table, off, logw, cap), reading, errors, reweighted_values(table, logw)[1]
    )
    if cap:
        found = _holding(found, by_texts(table, both_ways(table, off, logw, 0.0), reading, errors))
    return replace(found, k_hat=worst_tail(logw, codes_of(table)))


def _holding(found: Effects, plain: Effects) -> Effects:
    """Effects by cut weights, whose intervals also hold those by uncut ones, `plain`: p and error
    are the larger."""
    low, wider = np.fmin(found.low, plain.low), ("high", "p", "error")
    return replace(
        found,
        low=low,
        **{name: np.fmax(getattr(found, name), getattr(plain, name)) for name in wider},
    )


def by_gradient(
    table: pd.DataFrame,
    gradient: np.ndarray,
    reading: str = "group_means",
    errors: BiasErrors | None = None,
) -> Effects:
    """First-order z from gate gradients [texts, units]; intervals are those of the derivative."""
    if reading == "paired_prompts":
        raise PruneAuditError(
            "paired_prompts has no gradient: use another reading, or --estimator generate."
        )
    errors, gradient = errors or BiasErrors(table), np.asarray(gradient, dtype=float)
    slope = slopes(table["toxicity"].to_numpy(dtype=float), gradient, codes_of(table))
    return _effects(errors.slopes(errors.matrix(table["prompt_id"], slope), reading), 1.0, None)


def _effects(found: Student, sign: float, ess: np.ndarray | None) -> Effects:
    """Effects of one change per unit, times `sign` (a change is off minus on, z on minus off). ess
    [units]: smallest ESS/n, if texts were weighted.
    """
    low, high = (found.low, found.high) if sign > 0 else (-found.high, -found.low)
    nan = np.full(len(found.value), np.nan)
    return Effects(
        sign * found.value,
        low,
        high,
        found.p,
        found.error,
        found.freedom,
        nan if ess is None else ess,
        nan,
    )

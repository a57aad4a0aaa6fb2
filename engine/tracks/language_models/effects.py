"""z_bias of some heads on one axis, by each estimator: what the methods share.

Rows of all arrays are the dense texts of the job's seeds, seed by seed, its splits in turn, in the
order of `PromptContext.rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from engine.core.errors import PruneAuditError
from engine.core.types import POOLED, Values
from engine.stats.clustered import Student
from engine.stats.pareto import worst_tail
from engine.store.runs import where
from engine.tracks.language_models.bias import PROMPT, evaluate, lay_out
from engine.tracks.language_models.bias_intervals import BiasErrors
from engine.tracks.language_models.context import Shard
from engine.tracks.language_models.scores import VALIDATION, ScoreJob, ScoreMethod, score_rows

EVERY = slice(None)
ShardsOf = Callable[[ScoreJob, str, int], list[Shard]]
"""Measurements of one unit: (job, axis, unit) -> shards."""


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


class AxisData:
    """Finished measurements of one axis, read on demand."""

    def __init__(self, job: ScoreJob, axis: str) -> None:
        self.job, self.axis = job, axis
        parts = {split: job.context.rows(axis, split) for split in job.splits}
        self._ids = {split: part["prompt_id"] for split, part in parts.items()}
        rows = pd.concat(parts.values(), ignore_index=True)[PROMPT]
        self.n = len(rows)
        self.table = pd.concat([rows] * len(job.seeds), ignore_index=True).assign(
            toxicity=self.columns(dense_shards(job, axis), "toxicity")[:, 0],
            seed=np.repeat(job.seeds, self.n),
        )

    def columns(self, shards: Sequence[Shard], name: str | None = None) -> np.ndarray:
        """One value column of the shards of all seeds, or all they have, [texts, columns] float64,
        in the order of `PromptContext.rows` seed by seed and split by split.
        """
        key = (*shards, name)
        if key not in self.job.read:
            parts = []
            for shard, part in zip(shards, self.job.fetch(shards), strict=True):
                ordered = part.set_index("prompt_id").loc[self._ids[shard.split]]
                parts.append((ordered[[name]] if name else ordered).to_numpy(dtype=float))
            self.job.read[key] = np.concatenate(parts)
        return self.job.read[key]

    @cached_property
    def errors(self) -> BiasErrors:
        return BiasErrors(self.table)

    @property
    def toxicity(self) -> np.ndarray:
        """Of the dense texts, [texts]."""
        return self.table["toxicity"].to_numpy(dtype=float)

    def _each(self, units: Sequence[int], shards: ShardsOf, name: str) -> np.ndarray:
        found = [self.columns(shards(self.job, self.axis, unit), name)[:, 0] for unit in units]
        return np.stack(found, axis=1) if found else np.zeros((len(self.table), 0))

    def toxicity_off(self, units: Sequence[int]) -> np.ndarray:
        """Toxicity of the texts drawn with each unit off, [texts, units] float64."""
        return self._each(units, lambda job, axis, unit: off_shards(job, axis, (unit,)), "toxicity")

    def logw(self, units: Sequence[int]) -> np.ndarray:
        """Log weights (nats) of the dense texts with each unit off, [texts, units] float64."""
        return self._each(units, weight_shards, "logw")

    def gradients(self) -> np.ndarray:
        """Gate gradients of the log-probability (nats) by all units, [texts, units] float64."""
        return self.columns(gradient_shards(self.job, self.axis))

    def without(
        self, units: Sequence[int], estimator: str, cap: float, rows: slice = EVERY
    ) -> np.ndarray:
        """Toxicity of the texts `rows` with each unit off, [texts, units], as an estimator has it.

        Combined is the mean of weighted texts and of texts drawn again. Their noise is nearly
        independent. So the mean has about two thirds of the error of either where weights have a
        heavy tail.
        """
        table = self.table[rows]
        if estimator == "generate":
            return self.toxicity_off(units)[rows]
        if estimator == "gradient":  # the slope is that of switching the head on
            toxicity, gradient = self.toxicity[rows], self.gradients()[rows][:, list(units)]
            return toxicity[:, None] - slopes(toxicity, gradient, codes_of(table))
        if estimator == "reweight":
            return reweighted_values(table, self.logw(units)[rows], cap)[0]
        return both_ways(table, self.toxicity_off(units)[rows], self.logw(units)[rows], cap)

    def ess(self, units: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Smallest ESS/n, smallest ESS and largest Pareto k̂ over subgroups, seeds pooled, [units]
        each."""
        codes, logw = codes_of(self.table), self.logw(units)
        share = effective_share(weights(logw, codes), codes)
        effective = share * np.bincount(codes)[:, None]
        return share.min(axis=0), effective.min(axis=0), worst_tail(logw, codes)

    def seeds(self) -> list[slice]:
        """The rows of each seed."""
        return [slice(at * self.n, (at + 1) * self.n) for at in range(len(self.job.seeds))]


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


def estimated(
    data: AxisData, units: Sequence[int], estimator: str, cap: float, intervals: bool = True
) -> HeadEffects:
    """z of some heads: from gate gradients, or from texts drawn again with the head off (generate).
    Or from the dense texts weighted by how likely they are with it off (reweight), or from the mean
    of these two (combined). Weights are cut at `cap`, 0: never.
    """
    reading, table = data.job.reading, data.table

    def value(rows: slice) -> np.ndarray:
        """z of every unit from some of the texts, without intervals, [units]."""
        mine = table[rows]
        if estimator == "gradient":
            return gradient_values(mine, data.gradients()[rows], reading)
        dense = biases(mine, data.toxicity[rows][:, None], reading)
        return dense - biases(mine, data.without(units, estimator, cap, rows), reading)

    by_seed = np.stack([value(rows) for rows in data.seeds()], axis=1)
    if not intervals:
        found = value(EVERY)
        pooled = Effects(found, *[np.full(len(found), np.nan)] * 7)
    elif estimator == "gradient":
        pooled = by_gradient(table, data.gradients(), reading, data.errors)
    elif estimator == "generate":
        pooled = by_texts(table, data.toxicity_off(units), reading, data.errors)
    elif estimator == "reweight":
        pooled = by_reweighting(table, data.logw(units), reading, data.errors, cap)
    else:
        off, logw = data.toxicity_off(units), data.logw(units)
        pooled = by_both(table, off, logw, reading, data.errors, cap)
    return HeadEffects(tuple(units), pooled, by_seed, estimator)


def first_order(data: AxisData, intervals: bool = True) -> HeadEffects:
    """z of all units from gate gradients."""
    return estimated(data, range(data.job.total), "gradient", 0.0, intervals)


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
    tables = [score_rows(job, method, values, **pooled, note=text, **same)]
    tables += [
        score_rows(job, method, column, seed=seed, **same)
        for seed, column in zip(job.seeds, singles.T, strict=True)
        if seed != POOLED
    ]
    return pd.concat([table.assign(estimator=who) for table in tables], ignore_index=True)


# Each head off, by subgroup: the changes of mean toxicity behind its effect on bias, from the
# same texts.


COLUMNS = ["axis", "unit", "group", "value", "error", "n", "level"]


def head_groups(job: ScoreJob, scores: pd.DataFrame, decided: Mapping[str, Values]) -> pd.DataFrame:
    """A row per head and subgroup of every axis whose heads were ranked. Computes nothing new.

    value is the change of mean toxicity when the head is off, by the estimator of its shown effect.
    error is its standard error over n prompts, level the mean with all heads on. scores: a score
    table; decided: what an adaptive estimator reports per axis (splits, draws).
    """
    tables = []
    for axis in job.axes:
        splits = tuple(decided.get(axis, {}).get("splits", (VALIDATION,)))
        rows = where(scores, score="z_bias", axis=axis)
        seeds = tuple(sorted(set(rows["seed"]) - {POOLED}))
        pooled = rows[rows["seed"] == POOLED].dropna(subset=["value"])
        if len(pooled) and seeds:
            data = AxisData(replace(job, seeds=seeds, splits=splits), axis)
            cap = float(job.options.get("cap", CAP))
            for estimator, part in pooled.groupby("estimator"):
                units = part["unit"].tolist()
                change = data.without(units, str(estimator), cap) - data.toxicity[:, None]
                tables.append(_by_group(data, units, change))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=COLUMNS)


def _by_group(data: AxisData, units: Sequence[int], change: np.ndarray) -> pd.DataFrame:
    """Mean and standard error of change [texts, units] per subgroup; draws of a prompt count as
    one."""
    keys = [data.table["subgroup"].astype(str).rename("group"), data.table["prompt_id"]]
    by_prompt = pd.DataFrame(change, columns=list(units)).groupby(keys).mean()
    by_group = by_prompt.groupby(level=0)
    n = by_group.size()
    columns = {"value": by_group.mean(), "error": by_group.std(ddof=1).div(np.sqrt(n), axis=0)}
    long = [
        part.reset_index()
        .melt("group", var_name="unit", value_name=name)
        .set_index(["group", "unit"])
        for name, part in columns.items()
    ]
    table = pd.concat(long, axis=1).reset_index().assign(axis=data.axis)
    level = data.table.groupby(keys[0])["toxicity"].mean()
    counted = {"n": table["group"].map(n), "level": table["group"].map(level)}
    return table.assign(**counted, unit=table["unit"].astype(int))[COLUMNS]


# What the dense model's own texts say about a model with a head off: importance weights and
# their derivative.
#
# Texts y_i were drawn from p. Under p_h (head h off) subgroup s has mean toxicity Σ w_i t_i / Σ w_i
# with w_i = p_h(y_i|x_i) / p(y_i|x_i), self-normalised within the subgroup (Owen 2013, ch. 9). The
# first-order estimate is the derivative of the same expression at the head's gate ξ = 1.
#
# Both are carried as one number per text, so that the readings of bias that are functions of
# subgroup means, and their bootstrap, serve unchanged (`paired_prompts` is none: it takes absolute
# values frame by frame, where a handful of weighted texts say nothing). The influence-centred value
# t'_i = m_s + w_i (t_i − m_s), weights with mean 1, has the subgroup's self-normalised mean and, to
# first order, the sampling variance of that ratio. Texts are rows; units (heads) are columns.


STEP = 1e-6
"""Half-width of the central difference along the derivative. A bias is piecewise linear: exact off
its kinks."""
CAP = 3.0
"""Where weights are cut unless the request says otherwise, in means of their subgroup."""
FEW = 5.0
"""Effective samples below which a subgroup's share means nothing: of three texts even one is a
third."""


@dataclass(frozen=True, eq=False)
class Effects:
    """z of every unit with 95 % interval, two-sided p of a head that moves nothing, standard error
    and degrees of freedom, [units] each.

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


def weights(logw: np.ndarray, subgroup: np.ndarray) -> np.ndarray:
    """Weights with mean 1 in every subgroup, [texts, units] float64.

    logw [texts, units] in nats; subgroup: codes [texts]. -inf is weight 0; a unit whose weights
    are all 0 in a subgroup gets NaN there. Raises PruneAuditError for NaN or inf.
    """
    bad = np.isnan(logw) | (logw == np.inf)
    if bad.any():
        raise PruneAuditError(
            f"{int(bad.sum())} of {bad.size} log-probabilities with a head off are not finite: "
            "the precision is too low for this model. Try --dtype float32, or --estimator generate."
        )
    out = np.empty(logw.shape)
    for code in np.unique(subgroup):
        rows = subgroup == code
        top = logw[rows].max(axis=0)
        with np.errstate(invalid="ignore"):
            part = np.exp(logw[rows] - np.where(np.isfinite(top), top, 0.0))
            out[rows] = part / (np.ones(len(part)) @ part / len(part))
    return out


def effective_share(weight: np.ndarray, subgroup: np.ndarray) -> np.ndarray:
    """Effective sample size over n, (Σ w)² / (n · Σ w²), per subgroup and unit: [subgroups, units].

    weight [texts, units], subgroup as in `weights`; 0 where all weights are 0.
    """
    shares = []
    for code in np.unique(subgroup):
        part = weight[subgroup == code]
        ones = np.ones(len(part))
        share = (ones @ part) ** 2 / (len(part) * (ones @ part**2))
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


def centred(toxicity: np.ndarray, weight: np.ndarray, subgroup: np.ndarray) -> np.ndarray:
    """t'_i = m_s + w_i (t_i − m_s), m_s = Σ w t / Σ w: [texts, units].

    toxicity [texts], weight [texts, units], subgroup as in `weights`.
    """
    out = np.empty(weight.shape)
    for code in np.unique(subgroup):
        rows = subgroup == code
        mean = (toxicity[rows] @ weight[rows]) / (np.ones(rows.sum()) @ weight[rows])
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


def biases(table: pd.DataFrame, values: np.ndarray, reading: str = "group_means") -> np.ndarray:
    """Bias of each column of values [texts, units] on the prompts of `table`, without intervals:
    [units]."""
    layout = lay_out(table)
    return np.array([evaluate(layout.with_toxicity(column), reading) for column in values.T])


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


def gradient_values(
    table: pd.DataFrame, gradient: np.ndarray, reading: str = "group_means"
) -> np.ndarray:
    """First-order z of every unit, ∂ bias/∂ξ at ξ = 1, without intervals: [units] from gradient
    [texts, units], of the log-probability by the unit's gate."""
    toxicity = table["toxicity"].to_numpy(dtype=float)
    slope = slopes(toxicity, np.asarray(gradient, dtype=float), codes_of(table))
    step = STEP / np.maximum(np.abs(slope).max(axis=0, initial=0.0), 1.0)
    up, down = (toxicity[:, None] + way * slope for way in (step, -step))
    return (biases(table, up, reading) - biases(table, down, reading)) / (2 * step)


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
    codes = codes_of(table)
    found = replace(by_texts(table, values, reading, errors, ess), k_hat=worst_tail(logw, codes))
    touched = np.flatnonzero((weights(logw, codes) > cap).any(axis=0) & ~dead) if cap else ()
    if len(touched):
        plain = by_reweighting(table, logw[:, touched], reading, errors)
        mine = Effects(**{name: array[touched] for name, array in vars(found).items()})
        for name, wider in vars(_holding(mine, plain)).items():
            getattr(found, name)[touched] = wider
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
    wider = {
        name: np.fmax(getattr(found, name), getattr(plain, name)) for name in ("high", "p", "error")
    }
    return replace(found, low=np.fmin(found.low, plain.low), **wider)


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
    nan = np.full(len(found.value), np.nan)
    ends = (found.low, found.high) if sign > 0 else (-found.high, -found.low)
    tested = found.p_of_nothing, found.error, found.freedom
    return Effects(sign * found.value, *ends, *tested, nan if ess is None else ess, nan.copy())

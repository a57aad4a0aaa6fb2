"""What the dense model's own texts say about a model with a head off: importance weights and their
derivative.

Texts y_i were drawn from p. Under p_h (head h off) subgroup s has mean toxicity Σ w_i t_i / Σ w_i
with
w_i = p_h(y_i|x_i) / p(y_i|x_i), self-normalised within the subgroup (Owen 2013, ch. 9). The first-order
estimate is the derivative of the same expression at the head's gate ξ = 1.

Both are carried as one number per text, so that the readings of bias that are functions of subgroup
means, and their bootstrap, serve unchanged (`paired_prompts` is none: it takes absolute values
frame by frame, where a handful of weighted texts say nothing). The influence-centred value t'_i =
m_s + w_i (t_i − m_s), weights with mean 1, has the subgroup's self-normalised mean and, to first
order, the sampling variance of that ratio. Texts are rows; units (heads) are columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from engine.core.errors import PruneAuditError
from engine.stats.pareto_k import worst_tail
from engine.stats.student import Student
from engine.tracks.language_models.bias import evaluate, lay_out
from engine.tracks.language_models.bias_intervals import BiasErrors

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

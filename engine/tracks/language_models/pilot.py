"""Reading a pilot (measurements/cost.py): which estimator to buy, what it costs, how wide
intervals will be.

A pilot table has the columns estimator, unit (-1: all heads at once), value, error, seconds, ess,
effective, n.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from engine.core.types import exact_count, rng
from engine.stats.clustered import TAILS
from engine.tracks.language_models.effects import FEW, Effects
from engine.tracks.language_models.selection import critical_heads

TURNED = 0.1
"""Standard error, in texts of n, below which no text turned: one that does moves its subgroup by
more than 1/n."""
FEW_PROMPTS = 20
"""Texts below which no width is predicted."""
WIDTH = 2 * float(ndtri(TAILS[1]))
"""Standard errors in a 95 % interval of a normal estimate."""


def rows_of(pilot: pd.DataFrame, estimator: str) -> pd.DataFrame:
    """Rows of single heads, by unit."""
    return pilot[(pilot["estimator"] == estimator) & (pilot["unit"] >= 0)].set_index("unit")


def turned(pilot: pd.DataFrame) -> pd.Index:
    """Heads drawn again of which some new text came out otherwise: the others show no variance, and
    say nothing."""
    drawn = rows_of(pilot, "generate")
    return drawn.index[drawn["error"] > TURNED / drawn["n"]]


def cost(pilot: pd.DataFrame, estimator: str) -> float:
    """Variance times seconds per head, mean over the heads that reweight and generate both tried
    and of which some text
    turned: what a head of stated precision costs."""
    rows = rows_of(pilot, estimator)
    both = rows.loc[rows.index.intersection(turned(pilot))]
    return float((both["error"] ** 2).mean() * rows["seconds"].mean())


def share_poor(pilot: pd.DataFrame, least_ess: float) -> float:
    """Share of the pilot's heads with too few effective samples to be reweighted."""
    rows = rows_of(pilot, "reweight")
    return float(((rows["ess"] < least_ess) | (rows["effective"] < FEW)).mean())


def cheapest(pilot: pd.DataFrame, least_ess: float) -> str:
    """reweight or generate: the cheaper one; generate where reweighting is honest for less than
    half of the heads."""
    honest = share_poor(pilot, least_ess) <= 0.5
    worth = not np.isfinite(cost(pilot, "generate")) or cost(pilot, "reweight") <= cost(
        pilot, "generate"
    )
    return "reweight" if honest and worth else "generate"


def first_order_error(pilot: pd.DataFrame, values: np.ndarray, least_ess: float) -> np.ndarray:
    """How far the gradient of each head may be off by not going the whole way, [units]; values
    [units] is first-order z.

    From the pilot's heads with enough effective samples: the median distance between gradient and
    reweighting. Where it is more, the head's value times the median relative distance over heads
    whose effect stands out of its error.
    """
    first, whole = _with_both(pilot, least_ess)
    if whole.empty:
        return np.full(len(values), np.inf)
    apart = (first - whole["value"]).abs()
    clear = whole["value"].abs() > 2 * whole["error"]
    relative = float((apart[clear] / whole["value"].abs()[clear]).median()) if clear.any() else 0.0
    return np.maximum(float(apart.median()), relative * np.abs(values))


def _with_both(pilot: pd.DataFrame, least_ess: float) -> tuple[pd.Series, pd.DataFrame]:
    """First-order values and reweighted rows of its heads with enough effective samples."""
    whole = rows_of(pilot, "reweight")
    whole = whole[np.isfinite(whole["value"]) & (whole["ess"] >= least_ess)]
    return rows_of(pilot, "gradient")["value"].loc[whole.index], whole


def seconds_for(pilot: pd.DataFrame, n_heads: int, texts: int) -> dict[str, float]:
    """Predicted seconds of each estimator for all heads and `texts` texts, drawing and judging them
    included."""
    scale = texts / float(pilot["n"].iloc[0])
    whole = pilot[pilot["unit"] < 0].set_index("estimator")["seconds"]
    head = {
        name: float(rows_of(pilot, name)["seconds"].mean()) for name in ("reweight", "generate")
    }
    draw = float(whole["dense"])
    found = {
        "gradient": draw + float(whole["gradient"]),
        **{name: draw + n_heads * one for name, one in head.items()},
    }
    return {name: scale * seconds for name, seconds in found.items()}


def widths_for(pilot: pd.DataFrame, texts: int) -> Mapping[str, float]:
    """Predicted width of a head's 95 % interval with `texts` texts: median over the pilot's heads,
    by 1/√n.

    NaN where the pilot cannot say: with few texts, and for generate where no text turned.
    """
    shrink = np.sqrt(float(pilot["n"].iloc[0]) / texts)
    names = ("gradient", "reweight", "generate")
    if texts < FEW_PROMPTS:
        return dict.fromkeys(names, float("nan"))
    found = {name: float(rows_of(pilot, name)["error"].median() * WIDTH * shrink) for name in names}
    drawn = rows_of(pilot, "generate")["error"].loc[
        turned(pilot)
    ]  # of few heads: compared on those, carried over
    same = rows_of(pilot, "reweight")["error"].reindex(drawn.index)
    ratio = np.sqrt((drawn**2).mean() / max((same**2).mean(), 1e-30))
    return {**found, "generate": found["reweight"] * float(ratio)}


# How far first order is off, learned from heads that have both: its slope, and what is left
# around it.


FEWEST = 4
"""Heads with both values below which nothing is learned."""


@dataclass(frozen=True)
class FirstOrderError:
    """measured ≈ slope × first order, give or take √(spread² + (relative × first order)²); `heads`
    that have both. NaN where these are too few to learn from."""

    slope: float
    spread: float
    relative: float
    heads: int

    def of(self, values: np.ndarray) -> np.ndarray:
        """Standard error around the slope at first-order values [units], in units of the score."""
        return np.hypot(self.spread, self.relative * values)

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


def learned(first: np.ndarray, measured: np.ndarray) -> FirstOrderError:
    """From first-order and measured values of the same heads, [heads] each.

    The slope is that of least squares through zero. The spread is the root mean square residual of
    the half of the heads with the smaller first-order values. `relative` is that of the residual
    over the value in the other half.
    """
    if len(first) < FEWEST:
        return FirstOrderError(np.nan, np.nan, np.nan, len(first))
    slope = float(first @ measured / max(first @ first, 1e-30))
    order = np.argsort(np.abs(first), kind="stable")
    small, large = order[: len(order) // 2], order[len(order) // 2 :]
    left = measured - slope * first
    spread = float(np.sqrt((left[small] ** 2).mean()))
    relative = float(np.sqrt(((left[large] / np.maximum(np.abs(first[large]), 1e-12)) ** 2).mean()))
    return FirstOrderError(slope, spread, relative, len(first))


def from_pilot(table: pd.DataFrame, least_ess: float) -> FirstOrderError:
    """From the heads of a pilot with enough effective samples."""
    first, whole = _with_both(table, least_ess)
    return learned(first.to_numpy(), whole["value"].to_numpy())


def with_error(first: Effects, error: FirstOrderError) -> Effects:
    """First-order effects whose intervals and p also hold how far first order is off; the values
    stay.

    An interval reaches around the value and around slope × value; without anything learned it has
    no ends.
    """
    off = error.of(first.value)
    whole = error.slope * first.value
    down, up = np.minimum(first.value, whole), np.maximum(first.value, whole)
    low = down - np.hypot(first.value - first.low, WIDTH / 2 * off)
    high = up + np.hypot(first.high - first.value, WIDTH / 2 * off)
    both = np.hypot(error.slope * first.error, off)
    known = np.isfinite(off)
    ends = {
        "low": low,
        "high": high,
        "p": np.maximum(first.p, 2 * ndtr(-np.abs(whole) / both)),
        "error": both,
    }
    return replace(
        first, **{name: np.where(known, values, np.nan) for name, values in ends.items()}
    )


# Is the selection stable? Which heads lie near a decision, and how much of the selection would
# come out again.
#
# A decision is a pair (critical units, k): of the units that are not critical the k with the
# highest score are cut (FASP Algorithm 1). Scores come with standard errors; errors of different
# heads count as independent.


Decision = tuple[frozenset[int], int]


def decisions(
    known: Mapping[str, np.ndarray], n_units: int, gammas: Iterable[float], cuts: Iterable[float]
) -> list:
    """Every (critical, k) an audit will ask for; without z_ppl in `known` no unit counts as
    critical.

    known: scores by name, [units] each; gammas and cuts are shares of n_units. Pairs that leave too
    few units are left out.
    """
    found = []
    for gamma in gammas:
        critical = frozenset(critical_heads(known["z_ppl"], gamma) if "z_ppl" in known else ())
        for share in cuts:
            k = exact_count(share, n_units)
            if 0 < k < n_units - len(critical):
                found.append((critical, k))
    return list(dict.fromkeys(found))


def top(values: np.ndarray, decision: Decision) -> list[int]:
    """The k units that are cut by values [units], best first; ties by unit."""
    critical, k = decision
    return [unit for unit in np.argsort(-values, kind="stable").tolist() if unit not in critical][
        :k
    ]


def threshold(values: np.ndarray, decision: Decision) -> float:
    """Half way between the values [units] of the last unit that is cut and the first that is
    not."""
    critical, k = decision
    first = top(values, (critical, k + 1))
    return float(values[first[k - 1]] + values[first[k]]) / 2


def near_decision(values: np.ndarray, reach: np.ndarray, wanted: Sequence[Decision]) -> np.ndarray:
    """Whether a unit's score, give or take `reach`, lies on both sides of some threshold: [units]
    bool.

    values and reach [units], in units of the score.
    """
    near = np.zeros(len(values), dtype=bool)
    for decision in wanted:
        close = np.abs(values - threshold(values, decision)) <= reach
        close[list(decision[0])] = False
        near |= close
    return near


REPEATED = 400
"""Repetitions of a measurement of which `stability` and `shortfall` are means."""


def stability(values: np.ndarray, errors: np.ndarray, wanted: Sequence[Decision]) -> float:
    """Share of the selected units expected to be selected again with fresh draws, mean over the
    decisions.

    values [units] with standard errors [units]. Both the measured and the repeated selection carry
    errors, so the expected overlap is taken between two independent repetitions around the measured
    values. 1.0 without decisions.
    """
    if not wanted:
        return 1.0
    first, second = values + _noise(errors, 2)
    return float(
        np.mean(
            [
                (picked(first, one) & picked(second, one)).sum(axis=1).mean() / one[1]
                for one in wanted
            ]
        )
    )


def shortfall(values: np.ndarray, errors: np.ndarray, wanted: Sequence[Decision]) -> float:
    """How much effect is lost, on average, by selecting from one repetition of values [units] with
    errors [units].

    Σ values of the best selection − Σ values of the one made, in units of the score, largest over
    the decisions; 0 without decisions. Heads that are as good as each other may change places at no
    loss, which `stability` would count against them.
    """
    scores = (values + _noise(errors, 1))[0]
    lost = [
        values[top(values, one)].sum() - (picked(scores, one) * values).sum(axis=1).mean()
        for one in wanted
    ]
    return float(max(lost, default=0.0))


def _noise(errors: np.ndarray, times: int) -> np.ndarray:
    """Normal noise with standard errors [units] around 0: [times, draws, units]."""
    return rng("repetitions", len(errors)).standard_normal((times, REPEATED, len(errors))) * errors


def picked(scores: np.ndarray, decision: Decision) -> np.ndarray:
    """Whether a unit is cut in each replicate: scores [draws, units] -> bool of that shape."""
    critical, k = decision
    scores = scores.copy()
    scores[:, list(critical)] = -np.inf
    chosen = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(chosen, np.argpartition(-scores, k - 1, axis=1)[:, :k], True, axis=1)
    return chosen


def draw_errors(by_seed: np.ndarray) -> np.ndarray:
    """Standard error of the mean over draws: by_seed [units, draws] -> [units]; inf for one draw.

    Few draws say little about one unit's spread, so each unit's variance is mixed with the median
    of all, as if that were three more draws.
    """
    draws = by_seed.shape[1]
    if draws < 2:
        return np.full(len(by_seed), np.inf)
    variance = by_seed.var(axis=1, ddof=1)
    mixed = ((draws - 1) * variance + 3 * np.median(variance)) / (draws + 2)
    return np.sqrt(mixed / draws)

"""Is the selection stable? Which heads lie near a decision, and how much of the selection would
come out again.

A decision is a pair (critical units, k): of the units that are not critical the k with the highest
score are cut (FASP Algorithm 1). Scores come with standard errors; errors of different heads count
as independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from engine.core.levels import exact_count
from engine.core.seeds import rng
from engine.tracks.language_models.selection.critical import critical_heads

Decision = tuple[frozenset[int], int]
WIDTH = 2 * 1.959963984540054
"""Standard errors in a 95 % interval of a normal estimate."""


def decisions(
    known: Mapping[str, np.ndarray], n_units: int, gammas: Iterable[float], cuts: Iterable[float]
) -> list:
    """Every (critical, k) an audit will ask for; without z_ppl in `known` no unit counts as
    critical.

    known: scores by name, [units] each; gammas and cuts are shares of n_units. Pairs that leave too
    few units are left out.
    """
    found: list[Decision] = []
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


def stability(
    values: np.ndarray, errors: np.ndarray, wanted: Sequence[Decision], draws: int = 400
) -> float:
    """Share of the selected units expected to be selected again with fresh draws, mean over the
    decisions.

    values [units] with standard errors [units]. Both the measured and the repeated selection carry
    errors, so the expected overlap is taken between two independent repetitions around the measured
    values. 1.0 without decisions.
    """
    if not wanted:
        return 1.0
    first, second = values + _noise(errors, draws, 2)
    return float(
        np.mean(
            [
                (picked(first, one) & picked(second, one)).sum(axis=1).mean() / one[1]
                for one in wanted
            ]
        )
    )


def shortfall(
    values: np.ndarray, errors: np.ndarray, wanted: Sequence[Decision], draws: int = 400
) -> float:
    """How much effect is lost, on average, by selecting from one repetition of values [units] with
    errors [units].

    Σ values of the best selection − Σ values of the one made, in units of the score, largest over
    the decisions; 0 without decisions. Heads that are as good as each other may change places at no
    loss, which `stability` would count against them.
    """
    scores = (values + _noise(errors, draws, 1))[0]
    lost = [
        values[top(values, one)].sum() - (picked(scores, one) * values).sum(axis=1).mean()
        for one in wanted
    ]
    return float(max(lost, default=0.0))


def _noise(errors: np.ndarray, draws: int, times: int) -> np.ndarray:
    """Normal noise with standard errors [units] around 0: [times, draws, units]."""
    return rng("repetitions", len(errors)).standard_normal((times, draws, len(errors))) * errors


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

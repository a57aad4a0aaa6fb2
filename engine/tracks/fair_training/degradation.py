"""Performance degradation: does the cut cost every group the same? (BiFP, Definitions 2 and 3.)

A group's degradation is the accuracy of the original model minus that of the cut one; the gap is
the highest minus the lowest over the groups that may be compared. It is never negative, so it is
above zero even where all groups lose
alike: the null band holds the gaps that come from exchanging group labels between images of the
same class.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.classifiers.gaps import Band, Exchange, band
from engine.classifiers.groups import RESULTS, Arm
from engine.stats.multi_reader import Trials, level

METRIC = "degradation_gap"
MOST = 2.0
"""The largest gap between two changes of accuracy, each of which lies between -1 and 1."""


def degradation_gaps(arm: Arm, variant: str, number: int | None = None) -> pd.DataFrame:
    """One row of `results` (columns RESULTS) per axis, over all trials or of one; changes are NaN,
    for it is one.

    The original model's own gap is 0 by definition, so its arm has no rows.
    """
    measure = arm.measure
    if arm is measure.dense_arm:
        return pd.DataFrame(columns=list(RESULTS))
    trials = arm.trials if number is None else arm.trials.only(number)
    places = (
        range(len(arm.trials.numbers)) if number is None else [arm.trials.numbers.index(number)]
    )
    gaps, shown = degradation_trials(arm, trials), []
    found = level(gaps)
    for place, (axis, exchange) in enumerate(zip(measure.axes[1:], measure.exchanges, strict=True)):
        null = _null(arm, exchange, list(places), float(found.value[place]))
        few = len(axis.counts) < 2
        counted = axis.groups["n"].iloc[axis.counts].sum()
        shown.append(
            {
                "variant": variant,
                "split": measure.split,
                "axis": axis.name,
                "metric": METRIC,
                "value": found.value[place],
                "low": found.low[place],
                "high": found.high[place],
                "n": int(counted),
                "null_mean": null.mean,
                "null_low": null.low,
                "null_high": null.high,
                "null_p": null.p,
                "group": "",
                "verdict": (
                    measure.cells.loc[_gap_cell(measure.cells, axis.name), "verdict"] if few else ""
                ),
            }
        )
    return pd.DataFrame(shown).reindex(columns=list(RESULTS))


def degradation_trials(arm: Arm, trials: Trials | None = None) -> Trials:
    """The gap of every axis as cells [trials, axes], and on the redrawn images [trials, n_boot,
    axes]."""
    trials = trials or arm.trials
    dense = arm.measure.dense_arm.trials
    own = {*trials.numbers} <= {
        *dense.numbers
    }  # a trial cut from its own dense model lost against that one
    before = dense.only(*trials.numbers) if own else dense
    lost = (before.values if own else before.values.mean(axis=0)) - trials.values
    drawn = (before.draws if own else before.draws.mean(axis=0)) - trials.draws
    cells = arm.measure.cells
    values, draws = [], []
    for axis in arm.measure.axes[1:]:
        rows = cells[
            (cells["axis"] == axis.name)
            & (cells["metric"] == "accuracy")
            & (cells["verdict"] == "")
        ].index
        values.append(_range(lost[..., rows]))
        draws.append(_range(drawn[..., rows]))
    none = np.zeros(len(values), dtype=bool)
    units = np.full(len(values), np.nan)
    return Trials(trials.numbers, np.stack(values, -1), np.stack(draws, -1), none, units, MOST)


def _range(groups: np.ndarray) -> np.ndarray:
    """Highest minus lowest over the last dimension, [..., groups] -> [...]; NaN for fewer than
    two."""
    if groups.shape[-1] < 2:
        return np.full(groups.shape[:-1], np.nan)
    return groups.max(axis=-1) - groups.min(axis=-1)


def _null(arm: Arm, exchange: Exchange, places: list[int], value: float) -> Band:
    """Band of the gap under exchanged labels, a mean over the trials as the gap itself is."""
    if not exchange.n_groups:
        return Band(np.nan, np.nan, np.nan, np.nan)
    dense, numbers = arm.measure.dense_arm, arm.trials.numbers
    own = {*numbers} <= {*dense.trials.numbers}
    sizes = np.stack([(exchange.codes == group).sum(axis=0) for group in range(exchange.n_groups)])
    parts = []
    for place in places:
        before = (
            dense.right[dense.trials.numbers.index(numbers[place])]
            if own
            else dense.right.mean(axis=0)
        )
        lost = (before.astype(float) - arm.right[place])[exchange.rows]
        sums = np.stack([lost @ (exchange.codes == group) for group in range(exchange.n_groups)])
        parts.append(_range((sums / sizes).T))
    return band(value, np.mean(parts, axis=0))


def _gap_cell(cells: pd.DataFrame, axis: str) -> int:
    return int(cells[(cells["axis"] == axis) & (cells["metric"] == "auc_gap")].index[0])

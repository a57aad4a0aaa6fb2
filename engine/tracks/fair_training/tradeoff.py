"""Accuracy against the gap over λ, and the area it dominates, by method: on the draws of the arms
themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from engine.classifiers.groups import RESULTS, Arm, Band, Exchange, band
from engine.stats.gap_of_means import Estimate, Trials, at_ends, difference, gaps_of_means, level
from engine.stats.pareto import front, hypervolume
from engine.store.runs import where
from engine.tracks.fair_training.arms import STRUCTURED, FairArm, tradeoff_arms
from engine.tracks.fair_training.request import FairRequest

COLUMNS = [
    "method",
    "strength",
    "sparsity",
    "axis",
    "accuracy",
    "accuracy_low",
    "accuracy_high",
    "gap",
    "gap_low",
    "gap_high",
    "degradation",
    "degradation_low",
    "degradation_high",
    "n_trials",
    "on_front",
]


def tradeoff_table(
    request: FairRequest, arms: Sequence[FairArm], measured: Mapping[FairArm, Arm]
) -> pd.DataFrame:
    """One row per method, λ and axis: means over seeds with intervals; on_front: no point of any
    method is better in accuracy and in the gap."""
    rows = []
    for arm in tradeoff_arms(request, list(arms)):
        mine = measured[arm]
        shown, lost = mine.measure.level(mine.trials), degradation(mine, mine.trials)
        for place, axis in enumerate(mine.measure.axes[1:]):
            rows.append(
                {
                    "method": arm.method,
                    "strength": arm.strength,
                    "sparsity": arm.sparsity,
                    "axis": axis.name,
                    **_said("accuracy", shown, _cell(mine, "", "accuracy")),
                    **_said("gap", shown, _cell(mine, axis.name, "accuracy_gap")),
                    **_said("degradation", lost, place),
                    "n_trials": arm.n_seeds,
                }
            )
    table = pd.DataFrame(rows)
    table["on_front"] = False
    for _, part in table.groupby("axis"):
        table.loc[part.index, "on_front"] = front(
            -part["accuracy"].to_numpy(), part["gap"].to_numpy()
        )
    return (
        table[COLUMNS]
        .sort_values(["axis", "method", "strength"], kind="stable")
        .reset_index(drop=True)
    )


def hypervolume_table(
    request: FairRequest,
    arms: Sequence[FairArm],
    measured: Mapping[FairArm, Arm],
    images: pd.DataFrame,
) -> pd.DataFrame:
    """One row per method and axis: the area that the points of all λ dominate.

    Of every seed, then the mean over seeds; and that area minus BiFP-str's, seed by seed and image
    by image (base "" for none). The reference is the same for all methods. It is the accuracy of
    always naming the most frequent class, and the largest gap of any seed of any point on the axis.
    NaN where too few groups may be compared for a gap.
    """
    points = tradeoff_arms(request, list(arms))
    guess = float(images["label"].value_counts(normalize=True).iloc[0])
    rows = []
    for place, axis in enumerate(measured[points[0]].measure.axes[1:]):
        gaps = {arm: _cell(measured[arm], axis.name, "accuracy_gap") for arm in points}
        worst = float(np.max([measured[arm].trials.values[:, gaps[arm]].max() for arm in points]))
        areas = {
            method: _areas(
                [measured[arm] for arm in points if arm.method == method],
                place,
                (1.0 - guess, worst),
            )
            for method in dict.fromkeys(arm.method for arm in points)
        }
        for method, mine in areas.items():
            area, base = level(mine), areas.get(STRUCTURED) if method != STRUCTURED else None
            apart = None if base is None else difference(mine, base)
            ends = (
                [np.nan] * 4
                if apart is None
                else [apart.value[0], apart.low[0], apart.high[0], apart.p[0]]
            )
            rows.append(
                {
                    "method": method,
                    "axis": axis.name,
                    "value": area.value[0],
                    "low": area.low[0],
                    "high": area.high[0],
                    "n_trials": len(mine.numbers),
                    "reference_accuracy": guess,
                    "reference_gap": worst,
                    "base": "" if apart is None else STRUCTURED,
                    **dict(
                        zip(
                            ("difference", "difference_low", "difference_high", "difference_p"),
                            ends,
                            strict=True,
                        )
                    ),
                }
            )
    return pd.DataFrame(rows)


def _areas(points: Sequence[Arm], place: int, reference: tuple[float, float]) -> Trials:
    """The dominated area of a method's points, of every seed and on every redrawn set of images, as
    one cell."""
    axis, first = points[0].measure.axes[1 + place].name, points[0].trials
    accuracy, gap = _cell(points[0], "", "accuracy"), _cell(points[0], axis, "accuracy_gap")
    values = [
        hypervolume(
            [1 - point.trials.values[seed, accuracy] for point in points],
            [point.trials.values[seed, gap] for point in points],
            reference,
        )
        for seed in range(len(first.numbers))
    ]
    wrong = np.stack([1 - point.trials.draws[..., accuracy] for point in points], axis=-1)
    apart = np.stack([point.trials.draws[..., gap] for point in points], axis=-1)
    draws = [
        [hypervolume(*each, reference) for each in zip(*seed, strict=True)]
        for seed in zip(wrong, apart, strict=True)
    ]
    none, unknown = np.zeros(1, dtype=bool), np.full(1, np.nan)
    there = 1.0 if np.isfinite(reference[1]) else np.nan
    return Trials(
        first.numbers,
        there * np.array(values)[:, None],
        there * np.array(draws)[..., None],
        none,
        unknown,
    )


def _cell(arm: Arm, axis: str, metric: str) -> int:
    """Where a quantity that is no group's is among the cells."""
    cells = arm.measure.cells
    return int(where(cells, axis=axis, metric=metric, group="").index[0])


def _said(name: str, found: Estimate, cell: int) -> dict[str, float]:
    return {
        name: found.value[cell],
        f"{name}_low": found.low[cell],
        f"{name}_high": found.high[cell],
    }


# Performance degradation: does the cut cost every group the same? (BiFP, Definitions 2 and 3.)
#
# A group's degradation is the accuracy of the original model minus that of the cut one; the gap is
# the highest minus the lowest over the groups that may be compared. It is never negative, so it is
# above zero even where all groups lose
# alike: the null band holds the gaps that come from exchanging group labels between images of the
# same class.


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
    found, shown = degradation(arm, trials), []
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
                    measure.cells.loc[
                        int(where(measure.cells, axis=axis.name, metric="auc_gap").index[0]),
                        "verdict",
                    ]
                    if few
                    else ""
                ),
            }
        )
    return pd.DataFrame(shown).reindex(columns=list(RESULTS))


def degradation(arm: Arm, trials: Trials) -> Estimate:
    """The gap between the groups' mean losses, and its interval: a cell per axis."""
    found = [gaps_of_means(*lost, most=MOST) for lost in _lost(arm, trials)]
    value, low, high = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Estimate(value, low, high, np.full(len(value), np.nan))


def degradation_trials(arm: Arm) -> Trials:
    """The largest mean loss of a group minus the smallest, between the same two groups in every
    trial: a cell per axis. [trials, axes], and on the redrawn images [trials, n_boot, axes]."""
    found = [at_ends(*lost) for lost in _lost(arm, arm.trials)]
    values, draws = (np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))
    none, units = np.zeros(len(found), dtype=bool), np.full(len(found), np.nan)
    return Trials(arm.trials.numbers, values, draws, none, units, MOST)


def _lost(arm: Arm, trials: Trials) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Accuracy lost by the groups of every axis, [trials, groups, 1], and on the redrawn images
    [trials, n_boot, groups, 1]."""
    dense = arm.measure.dense_arm.trials
    own = {*trials.numbers} <= {
        *dense.numbers
    }  # a trial cut from its own dense model lost against that one
    before = dense.only(*trials.numbers) if own else dense
    lost = (before.values if own else before.values.mean(axis=0)) - trials.values
    drawn = (before.draws if own else before.draws.mean(axis=0)) - trials.draws
    for axis in arm.measure.axes[1:]:
        rows = where(arm.measure.cells, axis=axis.name, metric="accuracy", verdict="").index
        yield lost[:, rows, None], drawn[..., rows, None]


def _null(arm: Arm, exchange: Exchange, places: list[int], value: float) -> Band:
    """Band of the gap between mean losses under exchanged labels."""
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
        parts.append(sums / sizes)
    return band(value, np.ptp(np.mean(parts, axis=0), axis=0))

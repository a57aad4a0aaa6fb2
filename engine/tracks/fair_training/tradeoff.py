"""Accuracy against the gap over λ, and the area it dominates, by method: on the draws of the arms
themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from engine.classifiers.groups import Arm
from engine.stats.multi_reader import Estimate, Trials, difference, level
from engine.stats.pareto import front, hypervolume
from engine.tracks.fair_training.arms import STRUCTURED, FairArm, tradeoff_arms
from engine.tracks.fair_training.degradation import degradation_trials
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
        shown, lost = level(mine.trials), level(degradation_trials(mine))
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
    """One row per method and axis: the area that the points of all λ dominate, of every seed, then
    the mean over seeds; and that area minus BiFP-str's, seed by seed and image by image (base ""
    for none).

    The reference is the same for all methods: the accuracy of always naming the most frequent
    class, and the largest gap that any seed of any point has on the axis. NaN where too few groups
    may be compared for a gap.
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
    return int(
        cells[(cells["axis"] == axis) & (cells["metric"] == metric) & (cells["group"] == "")].index[
            0
        ]
    )


def _said(name: str, found: Estimate, cell: int) -> dict[str, float]:
    return {
        name: found.value[cell],
        f"{name}_low": found.low[cell],
        f"{name}_high": found.high[cell],
    }

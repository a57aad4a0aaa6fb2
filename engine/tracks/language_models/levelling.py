"""The gap between subgroups of an axis, split at its two ends: paired changes of the worst-off and
the best-off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.stats.group_gaps import verdict_of
from engine.stats.resampling import Difference, Interval, difference_of, interval_of
from engine.tracks.language_models.bias_bootstrap import BiasBootstrap
from engine.tracks.language_models.by_group import MIN_GROUP, TOO_FEW


@dataclass(frozen=True)
class Levelling:
    """The gap (highest minus lowest mean toxicity of a subgroup) and what happened at its two ends.

    worst_group and best_group are the dense model's most and least toxic subgroups among those with
    MIN_GROUP prompts. They are picked and measured on the same prompts, so their changes lean a
    little towards the middle.
    """

    worst_group: str
    worst_change: Difference
    best_group: str
    best_change: Difference
    gap_dense: Interval
    gap_variant: Interval
    gap_change: Difference
    verdict: str


def levelling(
    dense: pd.DataFrame,
    variant: pd.DataFrame,
    bootstrap: BiasBootstrap | None = None,
    seed: int = 0,
) -> Levelling:
    """Split the change of the gap; intervals are paired and shared with `bootstrap` when one is
    given.

    An end counts as changed when its 95 % interval leaves out zero. With fewer than two subgroups
    of MIN_GROUP prompts the names are empty, the numbers NaN and the verdict is TOO_FEW.
    """
    bootstrap = bootstrap or BiasBootstrap(dense, seed=seed)
    large = np.flatnonzero(bootstrap.sizes >= MIN_GROUP)
    n = int(bootstrap.sizes[large].sum())
    if len(large) < 2:
        change, level = (
            Difference(np.nan, np.nan, np.nan, np.nan, n),
            Interval(np.nan, np.nan, np.nan, n),
        )
        return Levelling("", change, "", change, level, level, change, TOO_FEW)
    before, before_reps = (part[..., large] for part in bootstrap.toxicity_means(dense))
    after, after_reps = (part[..., large] for part in bootstrap.toxicity_means(variant))
    worst, best = int(before.argmax()), int(before.argmin())

    def change_of(place: int) -> Difference:
        size = int(bootstrap.sizes[large[place]])
        return difference_of(
            after[place] - before[place],
            after_reps[:, place] - before_reps[:, place],
            size,
            most=1.0,
        )

    gaps = np.ptp(before), np.ptp(after)
    replicates = np.ptp(before_reps, axis=1), np.ptp(after_reps, axis=1)
    return Levelling(
        worst_group=bootstrap.subgroups[large[worst]],
        worst_change=change_of(worst),
        best_group=bootstrap.subgroups[large[best]],
        best_change=change_of(best),
        gap_dense=interval_of(gaps[0], replicates[0], n, floor=0.0, ceiling=1.0),
        gap_variant=interval_of(gaps[1], replicates[1], n, floor=0.0, ceiling=1.0),
        gap_change=difference_of(gaps[1] - gaps[0], replicates[1] - replicates[0], n, most=1.0),
        verdict=verdict_of(change_of(worst), change_of(best)),
    )

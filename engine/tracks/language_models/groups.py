"""Every subgroup on its own: toxicity or perplexity with an interval, and its paired change against
the dense model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.core.errors import RequestError, unknown
from engine.stats.resampling import (
    TOO_FEW,
    Difference,
    Interval,
    difference_of,
    interval_of,
    verdict_of,
)
from engine.tracks.language_models.bias_intervals import BiasBootstrap

MIN_GROUP = 10
"""Prompts below which a group gets no verdict."""
UNUSABLE = "unusable"
"""Why no group gets a verdict: the model predicts text worse than a uniform guess."""
METRICS = ("toxicity", "perplexity")
COLUMNS = (
    "metric",
    "group",
    "value",
    "low",
    "high",
    "n",
    "delta",
    "delta_low",
    "delta_high",
    "verdict",
)


def group_table(
    dense: pd.DataFrame,
    variant: pd.DataFrame | None = None,
    *,
    metric: str = "toxicity",
    bootstrap: BiasBootstrap | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """`group_rows` as a table. A bootstrap made from any table of the same prompts can be shared by
    many calls."""
    if bootstrap is None:
        bootstrap = BiasBootstrap(
            dense if "toxicity" in dense.columns else dense.assign(toxicity=0.0), seed=seed
        )
    return pd.DataFrame(group_rows(dense, variant, metric, bootstrap), columns=list(COLUMNS))


def group_rows(
    dense: pd.DataFrame, variant: pd.DataFrame | None, metric: str, bootstrap: BiasBootstrap
) -> list[dict[str, object]]:
    """One row per subgroup of one axis, columns COLUMNS; values are the variant's (the dense
    model's when None).

    metric "toxicity" reads a column toxicity; "perplexity" reads nll (nats) and tokens per prompt
    and gives exp(Σ nll / Σ tokens). n counts prompts, delta = variant - dense with a paired
    interval. verdict is "" or TOO_FEW (fewer than MIN_GROUP prompts); tables.py has UNUSABLE.
    Raises RequestError for another metric.
    """
    if metric not in METRICS:
        raise RequestError(unknown("metric", metric, METRICS))
    before = _measured(bootstrap, dense, metric)
    after = before if variant is None else _measured(bootstrap, variant, metric)
    most = 1.0 if metric == "toxicity" else np.inf
    rows = []
    for place, (group, n) in enumerate(zip(bootstrap.subgroups, bootstrap.sizes, strict=True)):
        shown = interval_of(after[0][place], after[1][:, place], int(n), floor=0.0, ceiling=most)
        delta = (np.nan, np.nan, np.nan)
        if variant is not None:
            moved = after[1][:, place] - before[1][:, place]
            change = difference_of(after[0][place] - before[0][place], moved, int(n), most)
            delta = (change.value, change.low, change.high)
        verdict = "" if n >= MIN_GROUP else TOO_FEW
        row = (metric, group, shown.value, shown.low, shown.high, int(n), *delta, verdict)
        rows.append(dict(zip(COLUMNS, row, strict=True)))
    return rows


def _measured(
    bootstrap: BiasBootstrap, table: pd.DataFrame, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """Value per subgroup, [subgroups], and its replicates, [n_boot, subgroups]: mean toxicity, or
    perplexity."""
    if metric == "toxicity":
        return bootstrap.toxicity_means(table)
    tokens = bootstrap.in_order(table, "tokens")
    nll = bootstrap.in_order(table, "nll")
    scored = np.maximum(tokens, 1)
    value, replicates = bootstrap.group_means(
        np.where(tokens > 0, nll / scored, 0.0), tokens.astype(float)
    )
    return np.exp(value), np.exp(replicates)


# The gap between subgroups of an axis, split at its two ends: paired changes of the worst-off
# and the best-off.


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

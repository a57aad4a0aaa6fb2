"""Every subgroup on its own: toxicity or perplexity with an interval, and its paired change against
the dense model."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.core.errors import RequestError, unknown
from engine.stats.group_gaps import TOO_FEW
from engine.stats.resampling import difference_of, interval_of
from engine.tracks.language_models.bias_bootstrap import BiasBootstrap

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

"""What a run stored of a benchmark, as its formulas read it: items in order, log-likelihoods by
role. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from engine.report.charts import lookup
from engine.store.runs import Run
from engine.tracks.language_models.benchmarks.base import Scored, ScoredBenchmark, scored_benchmarks


def measured_on(run: Run) -> list[str]:
    """Names of the benchmarks that the run was measured on."""
    if not run.has("benchmark_sources"):
        return []
    there = set(lookup.frame(run, "benchmark_sources")["benchmark"])
    return [name for name in scored_benchmarks() if name in there]


def texts_of(run: Run, one: ScoredBenchmark) -> pd.DataFrame:
    """The texts of a benchmark in their order, one row each."""
    items = lookup.frame(run, "benchmark_items")
    return items[items["benchmark"] == one.name].sort_values("choice")


def stored(run: Run, one: ScoredBenchmark, variant: str) -> Scored | None:
    """Items and log-likelihoods of a variant; None where it was not measured."""
    logps, texts = lookup.frame(run, "benchmark_logps"), texts_of(run, one)
    mine = logps[(logps["benchmark"] == one.name) & (logps["variant"] == variant)]
    if mine.empty:
        return None
    ordered = texts[["choice", "role"]].merge(
        mine[["choice", "logp", "tokens"]], on="choice", validate="one_to_one"
    )
    parts = {role: ordered[ordered["role"] == role] for role in one.roles}
    logp = {role: part["logp"].to_numpy(dtype=float) for role, part in parts.items()}
    tokens = {role: part["tokens"].to_numpy(dtype=float) for role, part in parts.items()}
    return Scored(
        texts[texts["role"] == next(iter(one.roles))].reset_index(drop=True), logp, tokens
    )


def checks(run: Run) -> Iterator[dict[str, Any]]:
    """Whether every number of all items follows from the stored log-likelihoods: {"what", "ok"} per
    benchmark."""
    for name in measured_on(run):
        one, table = scored_benchmarks()[name], lookup.frame(run, "benchmarks")
        mine = table[(table["benchmark"] == name) & (table["group"] == "")]
        apart = [_apart(run, one, str(variant), rows) for variant, rows in mine.groupby("variant")]
        worst = max(apart, default=0.0)
        what = f"{len(mine)} numbers of {one.title} follow from the stored log-likelihoods"
        yield {"what": f"{what} (largest difference {worst:.1e})", "ok": worst <= 1e-9}


def _apart(run: Run, one: ScoredBenchmark, variant: str, rows: pd.DataFrame) -> float:
    """The largest difference between numbers as stored and as computed again; inf where there is
    nothing to do so."""
    scored = stored(run, one, variant)
    if scored is None:
        return float("inf")
    by_name = {metric.name: metric for metric in one.metrics}
    metrics = [by_name[name] for name in rows["metric"]]
    again = [float(metric.value(metric.features(scored).sum(axis=0))) for metric in metrics]
    return float(np.nanmax(np.abs(np.array([*again, 0.0]) - [*rows["value"], 0.0])))

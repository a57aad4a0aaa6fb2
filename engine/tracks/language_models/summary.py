"""Cut heads in lines: bias and perplexity of the dense model and of each variant aimed at an
axis."""

from __future__ import annotations

import math

import pandas as pd

from engine.core.words import AXES
from engine.report.charts import lookup
from engine.report.charts.lookup import at_gamma_star
from engine.report.summaries import Summary, ends
from engine.store.runs import Run
from engine.tracks.language_models.benchmarks.base import ScoredBenchmark, scored_benchmarks
from engine.tracks.language_models.stored_benchmarks import measured_on


class Heads(Summary):
    """Bias with interval, change and null band; perplexity."""

    parts = ("request", "model", "judge", "gamma", "warnings", "spent")
    more = ("group_null_mean", "group_null_high", "group_null_p")
    columns = ("method", "target_axis", "gamma", "sparsity", "realised")

    def lines(self, run: Run) -> list[str]:
        meta, results, variants = run.meta, run.table("results"), run.table("variants")
        test = results[results["split"] == "test"]
        ppl = test[test["metric"] == "perplexity"].set_index("variant")
        found = []
        for axis in meta["request"]["axes"]:
            rows = test[
                (test["metric"] == f"bias:{meta['request']['reading']}") & (test["axis"] == axis)
            ]
            rows = rows.set_index("variant")
            found.append(
                f"\n{AXES.get(axis, axis)}  (bias with 95 % interval; null band up to, words/group;"
                " perplexity)"
            )
            here = variants[
                variants["chosen"] & variants["variant"].isin(rows.index)
            ]  # not all was added on every axis
            for item in at_gamma_star(here, axis, meta["gamma"]).itertuples():
                found.append(_line(item.variant, rows.loc[item.variant], ppl.loc[item.variant]))
        return found + [
            line
            for name in measured_on(run)
            for line in _of_benchmark(run, scored_benchmarks()[name])
        ]


def _line(name: str, bias: pd.Series, ppl: pd.Series) -> str:
    change = (
        ""
        if math.isnan(bias.delta)
        else f"  {bias.delta:+.3f} {ends(bias.delta_low, bias.delta_high, '+.3f')}"
    )
    return (
        f"  {name:<44} {bias.value:.3f} {ends(bias.low, bias.high, '.3f')}{change:<28} "
        f"null {bias.null_high:.3f}{_group(bias)}  ppl {ppl.value:.2f}"
    )


def _of_benchmark(run: Run, one: ScoredBenchmark) -> list[str]:
    """Its main number for the dense model and every variant, over all items."""
    rows = lookup.frame(run, "benchmarks")
    rows = rows[
        (rows["benchmark"] == one.name) & (rows["metric"] == one.main.name) & (rows["group"] == "")
    ]
    found = [
        f"\n{one.title}: {one.main.title}  (with 95 % interval; change; what no preference"
        " gives; n)"
    ]
    for row in rows.itertuples():
        ends_of = (
            f"{row.delta:+.3f} {ends(row.delta_low, row.delta_high, '+.3f')}"
            if not math.isnan(row.delta)
            else ""
        )
        null = (
            f"null {row.null_low:.3f} to {row.null_high:.3f}  "
            if not math.isnan(row.null_low)
            else ""
        )
        shown = (
            f"{row.value:.3f} {ends(row.low, row.high, '.3f')}  {ends_of:<24}  {null}n {int(row.n)}"
        )
        found.append(f"  {row.variant:<44} {shown}")
    return found


def _group(bias: pd.Series) -> str:
    """The upper end of the group band; a dash where there is none."""
    high = bias.get("group_null_high", math.nan)
    return "/—" if math.isnan(high) else f"/{high:.3f}"

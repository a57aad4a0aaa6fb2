"""Cut filters in lines: AUC, its gap between subgroups, and which subgroup paid most, of every arm
at every speedup."""

from __future__ import annotations

import math

import pandas as pd

from engine.core.words import AXES
from engine.report.summaries import Summary, ends, number, paid_most
from engine.store.runs import Run
from engine.store.tables import where
from engine.tracks.image_classifiers.panels.lookup import missed


class Filters(Summary):
    """Gap with interval, change and null band; AUC; the subgroup with the lowest change; degenerate
    trials."""

    parts = ("track", "experiment", "request", "model", "data", "warnings", "spent")
    columns = ("method", "base", "loss", "speedup", "achieved", "realised", "degenerate")
    more = ("group", "verdict")

    def lines(self, run: Run) -> list[str]:
        results, groups, variants = run.table("results"), run.table("groups"), run.table("variants")
        test = results[results["split"] == "test"]
        auc = where(test, metric="auc", axis="").set_index("variant")["value"]
        found = []
        for axis in run.meta["request"]["axes"]:
            gaps = where(test, metric="auc_gap", axis=axis).set_index("variant")
            mine = where(groups, metric="auc", axis=axis, verdict="")
            found.append(
                f"\n{AXES.get(axis, axis)}  (gap of AUC with 95 % interval; null band up to; AUC;"
                " lowest change)"
            )
            for item in variants[variants["chosen"]].itertuples():
                paid = paid_most(mine[mine["variant"] == item.variant])
                wrong = f"  ! {item.degenerate} degenerate" if item.degenerate else ""
                level = number(float(auc.get(item.variant, math.nan)), ".3f")
                gap = gaps.loc[item.variant] if item.variant in gaps.index else None
                found.append(f"  {item.variant:<32} {_gap(gap)}  AUC {level}{paid}{wrong}")
        missing = {name: missed(run, name) for name in variants.loc[variants["chosen"], "variant"]}
        shown = [f"  {name:<32} {text}" for name, text in missing.items() if text]
        return [*found, "\ntargets", *shown] if shown else found


def _gap(row: pd.Series | None) -> str:
    if row is None or math.isnan(row.value):
        return "gap none".ljust(72)
    change = (
        ""
        if math.isnan(row.delta)
        else f"{row.delta:+.3f} {ends(row.delta_low, row.delta_high, '+.3f')}"
    )
    return (
        f"gap {row.value:.3f} {ends(row.low, row.high, '.3f')}  {change:<24}  null"
        f" {number(row.null_high, '.3f')}"
    )

"""Fair training in lines: accuracy and both gaps of every method at every sparsity, and what beats
BiFP."""

from __future__ import annotations

import math

import pandas as pd

from engine.core.words import AXES
from engine.report.summaries import Summary, ends, number, paid_most
from engine.store.runs import Run
from engine.store.tables import where
from engine.tracks.fair_training.methods.base import DEGRADATION

SURE = 0.05
"""Largest q at which a difference between methods is said to be one."""


class Fair(Summary):
    """Accuracy; both gaps with interval, change and null band; the subgroup that lost most; what it
    took."""

    parts = ("track", "experiment", "request", "model", "data", "targets", "warnings", "spent")
    columns = (
        "method",
        "base",
        "units",
        "strength",
        "sparsity",
        "realised",
        "parameters_cut",
        "speedup",
        "degenerate",
    )
    more = ("group", "verdict")

    def lines(self, run: Run) -> list[str]:
        results, groups, variants = run.table("results"), run.table("groups"), run.table("variants")
        accuracy = where(results, metric="accuracy", axis="").set_index("variant")["value"]
        found = []
        for axis in run.meta["request"]["axes"]:
            rows = results[results["axis"] == axis]
            gaps, lost = (
                rows[rows["metric"] == name].set_index("variant")
                for name in ("accuracy_gap", "degradation_gap")
            )
            mine = where(groups, metric="accuracy", axis=axis, verdict="")
            found.append(
                f"\n{AXES.get(axis, axis)}  (accuracy; its gap with 95 % interval and change; null"
                " band up to; gap of what was lost; lowest change)"
            )
            for item in variants[variants["chosen"]].itertuples():
                wrong = f"  ! {item.degenerate} degenerate" if item.degenerate else ""
                level = number(float(accuracy.get(item.variant, math.nan)), ".3f")
                paid = paid_most(mine[mine["variant"] == item.variant])
                found.append(
                    f"  {item.variant:<24} {level}  {_gap(gaps, item.variant)}  lost"
                    f" {_lost(lost, item.variant)}  {item.speedup:.2f}x{paid}{wrong}"
                )
            found += _compared(run, axis)
        return [*found, *_reached(run), *_tradeoff(run)]


def _gap(rows: pd.DataFrame, variant: str) -> str:
    if variant not in rows.index or math.isnan(rows.loc[variant, "value"]):
        return "gap none".ljust(64)
    row = rows.loc[variant]
    change = ""
    if not math.isnan(row["delta"]):
        change = f"{row['delta']:+.3f} {ends(row['delta_low'], row['delta_high'], '+.3f')}"
    said = f"gap {row['value']:.3f} {ends(row['low'], row['high'], '.3f')}"
    return f"{said} {change:<24} null {number(row['null_high'], '.3f')}"


def _lost(rows: pd.DataFrame, variant: str) -> str:
    value = rows["value"].get(variant, math.nan)
    return "    –" if math.isnan(value) else f"{value:.3f}"


def _compared(run: Run, axis: str) -> list[str]:
    """Methods whose gap of accuracy differs from BiFP's, with q below SURE; whether any does."""
    table = run.table("arm_differences")
    table = where(table, axis=axis, metric="accuracy_gap")
    if table.empty:
        return []
    table = table[table["q"].notna()]
    if table.empty:
        return ["  gap of accuracy against BiFP: no gap may be compared"]
    sure = table[table["q"] < SURE]
    lines = [
        f"    {row.method} minus {row.base} at {row.sparsity:.1%}: {row.value:+.3f}"
        f" {ends(row.low, row.high, '+.3f')}"
        for row in sure.itertuples()
    ]
    return [
        (
            f"  gap of accuracy against BiFP: {len(sure)} of {len(table)} comparisons differ (q <"
            f" {SURE:g})"
        ),
        *lines,
    ]


def _reached(run: Run) -> list[str]:
    """What it took until gap and accuracy were met on validation images, per method and
    sparsity."""
    table, targets = run.table("reached"), run.meta["targets"]
    if targets["gap"] is None:
        return [
            "\niterations until a validation gap was met: not known, no gap may be compared on"
            " validation images"
        ]
    lost = " of what was lost" if run.meta["request"].get("notion") == DEGRADATION else ""
    found = [
        f"\niterations until a validation gap{lost} of {targets['gap']:.3f} at an accuracy of "
        f"{targets['accuracy']:.3f} (medians of the seeds that reached it)"
    ]
    for (method, sparsity, strength), rows in table.groupby(
        ["method", "sparsity", "strength"], sort=False
    ):
        met = rows[rows["reached"]]
        said, more = "never", ""
        if len(met):
            said, images, seconds = (
                f"{met[name].median():.0f}" for name in ("iterations", "examples", "seconds")
            )
            more = f"  {images} images, {seconds} s; held to the end by {int(met['held'].sum())}"
        fair = f" λ {strength:g}" if strength else ""
        found.append(
            f"  {method + fair:<24} {sparsity:>6.1%}  {said:>6}  ({len(met)} of {len(rows)}"
            f" seeds){more}"
        )
    return found


def _tradeoff(run: Run) -> list[str]:
    if not run.has("hypervolume"):
        return []
    sparsity = run.meta["request"]["tradeoff_sparsity"]
    found = [
        f"\narea that accuracy and gap dominate over λ at {sparsity:.1%} cut (larger is better)"
    ]
    return found + [
        f"  {row.method:<24} {row.axis:<12} {row.value:.5f} {ends(row.low, row.high, '.5f')}"
        for row in run.table("hypervolume").itertuples()
    ]

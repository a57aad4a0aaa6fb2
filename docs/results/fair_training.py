"""Accuracy and gaps of every method of the embedded fair training at its middle sparsity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docs.results._cells import change, level, markdown, only
from engine.core.words import method_name
from engine.store.runs import Run

BASE = "bifp-str"


def table(run: Run) -> str:
    variants, axis = run.table("variants"), run.meta["request"]["axes"][0]
    chosen = variants[variants["chosen"]]
    at = sorted(run.meta["request"]["sparsities"])[len(run.meta["request"]["sparsities"]) // 2]
    head = [
        f"{at:.1%} cut",
        "accuracy",
        "accuracy gap",
        "its null band up to",
        "minus BiFP-str: accuracy",
        "minus BiFP-str: gap",
        "FLOPs, dense over cut",
    ]
    rows = [
        _row(run, axis, variant, at)
        for variant in chosen.to_dict("records")
        if variant["method"].startswith("dense") or variant["sparsity"] == at
    ]
    return markdown(head, rows)


def _row(run: Run, axis: str, variant: Mapping[str, Any], at: float) -> list[str]:
    results, name = run.table("results"), variant["variant"]
    results = results[results["split"] == "test"]
    gap = only(results, variant=name, axis=axis, metric="accuracy_gap")
    differences = run.table("arm_differences")
    mine = differences[
        (differences["method"] == variant["method"]) & (differences["sparsity"] == at)
    ]
    against = [
        _difference(mine[(mine["axis"] == over) & (mine["metric"] == metric)])
        for over, metric in (("", "accuracy"), (axis, "accuracy_gap"))
    ]
    return [
        method_name(variant["method"]),
        level(only(results, variant=name, axis="", metric="accuracy")),
        level(gap),
        f"{gap['null_high']:.3f}",
        *against,
        f"{variant['speedup']:.1f} ×",
    ]


def _difference(rows: Any) -> str:
    """Interval and, where it is not told apart, the q-value."""
    rows = rows[rows["base"] == BASE]
    if not len(rows):
        return ""
    row = rows.iloc[0]
    return change(row, "value") + (f", q {row['q']:.2f}" if row["q"] > 0.05 else "")

"""Accuracy of every procedure and score of the embedded text classifier, and where random masks
stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from docs.results._cells import change, markdown, only
from engine.core.words import method_name
from engine.store.runs import Run

GROUPS = "people"
STARS = {"winning": " ★", "matching": " ☆", "no": ""}
"""By the word of `ticket_levels`: a winning ticket, one that matches only."""


def table(run: Run) -> str:
    levels = run.table("ticket_levels")
    sparsities, last = sorted(levels["sparsity"].unique()), levels["sparsity"].max()
    heads = [
        "",
        *(f"{share:.0%} cut" for share in sparsities),
        f"loses most at {last:.0%}, change [95 %]",
    ]
    rows = [
        [
            method_name(name),
            *(_cell(levels, name, share) for share in sparsities),
            _worst(run, name, last),
        ]
        for name in dict.fromkeys(levels["method"])
    ]
    return "\n\n".join([markdown(heads, rows), _among_random(run, sparsities)])


def _cell(levels: pd.DataFrame, method: str, sparsity: float) -> str:
    row = only(levels, method=method, sparsity=sparsity, axis="", metric="accuracy")
    star = STARS[row["word"]]
    if star and row["full_mean"] - row["mean"] > row["full_std"]:
        star = f" ({star.strip()})"
    return f"{row['mean']:.3f} ± {row['std']:.3f}{star}"


def _worst(run: Run, method: str, sparsity: float) -> str:
    """The group whose accuracy falls most."""
    variants, groups = run.table("variants"), run.table("groups")
    variant = variants[
        variants["chosen"] & (variants["method"] == method) & (variants["sparsity"] == sparsity)
    ]
    mine = groups[
        groups["variant"].isin(variant["variant"])
        & (groups["axis"] == GROUPS)
        & (groups["split"] == "test")
    ]
    row = mine[mine["metric"] == "accuracy"].sort_values("delta").iloc[0]
    return f"{row['group']} {change(row)}"


def _among_random(run: Run, sparsities: list[float]) -> str:
    """Percentile of what trains nothing among random masks on the same weights, and its q."""
    ranks = run.table("random_ranks")
    head = ["percentile among random masks (q)", *(f"{share:.0%} cut" for share in sparsities)]
    rows = [
        [
            method_name(name),
            *(_rank(only(ranks, method=name, sparsity=share, axis="")) for share in sparsities),
        ]
        for name in dict.fromkeys(ranks["method"])
    ]
    return markdown(head, rows)


def _rank(row: Mapping[str, Any]) -> str:
    return f"{100 * row['percentile']:.0f} ({row['q']:.2f})"

"""Which subgroups a cut clearly changed, and which way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.store.runs import Run


@dataclass(frozen=True)
class Moved:
    """Quoted names, the largest change first. A group counts where its interval leaves out zero;
    `judged` is how many have enough of what is measured; `best_pays`: the uncut model's best-off is
    among the worse."""

    worse: tuple[str, ...]
    better: tuple[str, ...]
    judged: int
    best_pays: bool


def judged(run: Run, choice: Choice, variant: str) -> pd.DataFrame:
    """Rows of the groups table about a variant, of the groups that have enough to be judged and a
    change."""
    rows = lookup.groups_of(run, variant, lookup.reading(run, choice).group.metric, choice.measured)
    return rows[(rows["verdict"] == "") & rows["delta"].notna()]


def moved(run: Run, choice: Choice, variant: Mapping[str, Any]) -> Moved:
    measure, table = lookup.reading(run, choice).group, judged(run, choice, str(variant["variant"]))
    rows = sorted(table.to_dict("records"), key=lambda row: -abs(row["delta"]))
    ways = {
        way: [row["group"] for row in rows if phrasing.direction(row) == way]
        for way in ("fell", "rose")
    }
    before = table.assign(was=table["value"] - table["delta"]).sort_values(
        "was", ascending=measure.sign > 0
    )
    best = before["group"].iloc[0] if len(before) else None
    worse = tuple(words.quoted(group) for group in ways[measure.worse])
    better = tuple(words.quoted(group) for group in ways[measure.better])
    return Moved(worse, better, len(rows), best in ways[measure.worse])

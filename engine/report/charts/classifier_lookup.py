"""Reading the tables of a classifier's run, of images or texts: trials behind a choice, and which
group paid most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.tracks import Measure, track_of
from engine.store.runs import Run

DENSE = "dense"
CLASS_AXIS = "class"
"""The axis whose subgroups are the classes."""


def trials_of(run: Run, choice: Choice) -> pd.DataFrame:
    """Variants that are the trials behind a choice, by their number; empty for the dense model."""
    variant = lookup.variant_of(run, choice)
    table = lookup.frame(run, "variants")
    return table[(table["pooled"] == variant["variant"]) & (table["seed"] >= 0)].sort_values("seed")


def groups_in_order(run: Run, choice: Choice) -> list[str]:
    """Subgroups that may be compared, the one that starts worst off first."""
    reading = lookup.reading(run, choice)
    rows = lookup.groups_of(run, DENSE, reading.group.metric, choice.measured)
    rows = rows[(rows["verdict"] == "") & rows["value"].notna()]
    return rows.sort_values("value", ascending=reading.group.sign < 0, kind="stable")[
        "group"
    ].tolist()


@dataclass(frozen=True)
class Paid:
    """Which subgroup paid most. `most`: its row; `clear`: its interval leaves out zero; `unclear`:
    the row of one whose change is lower still but may be chance."""

    most: dict[str, Any]
    clear: bool
    unclear: dict[str, Any] | None = None

    def doubt(self, measure: Measure) -> str:
        """What must be added where another subgroup may have paid more."""
        if self.unclear is None:
            return ""
        return (
            f"{words.quoted(self.unclear['group'])} may have lost more:"
            f" {measure.brief(self.unclear)}"
        )


def paid_most(table: pd.DataFrame) -> Paid | None:
    """Of subgroups that clearly lost the one that lost most; else the lowest change. None where
    nothing is known.

    Higher is better in every measure of a subgroup here.
    """
    rows = table[table["delta"].notna()].sort_values("delta", kind="stable").to_dict("records")
    if not rows:
        return None
    clear = phrasing.clear(rows, "fell")
    if not clear:
        return Paid(rows[0], False)
    return Paid(clear[0], True, rows[0] if rows[0]["group"] != clear[0]["group"] else None)


def axis_note(run: Run, choice: Choice) -> str:
    """What must be known about an axis before its numbers are compared."""
    two = len(run.data["classes"]) == 2
    if choice.measured == CLASS_AXIS and two and lookup.reading(run, choice).name == "auc":
        return (
            "With two classes, telling one from the other is one task: both have the same AUC. Read"
            " accuracy instead."
        )
    return ""


def repeats(run: Run) -> int:
    """How many models every arm has: trials, or seeds; one where variants are no means."""
    if "pooled" not in lookup.frame(run, "variants"):
        return 1
    request = run.request
    return int(request["trials"] if "trials" in request else request["seeds"])


def trials_said(run: Run) -> str:
    """E.g. "3 trials"."""
    return phrasing.count(repeats(run), track_of(run).nouns.repeat)

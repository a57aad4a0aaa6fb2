"""What may be said of a group: only what passes the band of whole descriptors exchanged between
subgroups."""

from __future__ import annotations

import math

from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.store.runs import Run
from engine.tracks.language_models import words as own


def group_warning(run: Run, choice: Choice) -> str:
    """What to say where the dense model's bias is above the words band and not above the group
    band; "" otherwise."""
    dense = lookup.bias(run, "dense", choice)
    if dense is None or phrasing.inside_null(dense):
        return ""
    high = dense.get("group_null_high", math.nan)
    if dense["value"] > high + phrasing.SAME:
        return ""
    return own.group_warning(
        choice.measured, dense["value"], high, str(dense.get("group_note") or "")
    )

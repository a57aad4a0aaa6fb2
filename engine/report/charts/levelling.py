"""If the gap shrank: did the worst-off subgroup gain, or did the best-off lose? For any track."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import dots
from engine.report.charts.lookup import View
from engine.report.charts.panel import Choice, Panel, nothing, plain, wrapped
from engine.report.contract import Measure
from engine.report.schema import readable
from engine.store.runs import Run

QUESTION = "If the gap shrank: did the worst-off subgroup gain, or did the best-off lose?"
_LEVELLED = "Levelling down: the gap shrank only because the best-off subgroup got worse"
COLUMNS = "what before value delta delta_low delta_high n"


def levelling_down(run: Run, choice: Choice) -> Panel:
    """Change of the dense model's worst and best subgroup, and of the gap between worst and
    best."""
    view = View(run, choice)
    if view.is_dense:
        return nothing("levelling_down", QUESTION, "Nothing is cut here, so nothing changed.")
    table = pd.DataFrame(_extremes(view))
    if table.empty:
        return nothing(
            "levelling_down", QUESTION, "This run has no worst and best subgroup for this choice."
        )
    table = table.assign(before=table["value"] - table["delta"])
    more = (
        f"The worst-off and best-off groups are those of the {view.track.whole}, so part of a "
        "change towards the middle is chance."
    )
    # n of the ends may count something else
    note = lookup.caveat(run, view.row(view.reading.gap), more=more)
    verdict, facts = _told(view, {row["metric"]: row for row in table.to_dict("records")})
    more = f"{phrasing.sentence(facts)}." if facts else ""
    shown, figure = readable(table, COLUMNS, value="after"), _changes(view, table)
    return Panel("levelling_down", QUESTION, f"{verdict}.", figure, shown, note, more=more)


def _told(view: View, rows: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """The verdict, and what both ends did. rows: by metric."""
    reading = view.reading
    if not {reading.worst.metric, reading.best.metric, reading.gap.metric} <= set(rows):
        return "Worst-off and best-off subgroup were not both measured", ""
    worst, best, gap = (rows[one.metric] for one in (reading.worst, reading.best, reading.gap))
    way, kind = view.way(reading.worst, worst), phrasing.direction(gap)
    gains, hurt = way == reading.worst.better, way == reading.worst.worse
    loses = view.way(reading.best, best) == reading.best.worse
    facts = (
        f"the worst-off subgroup ({words.quoted(worst['group'])}): {reading.worst.change(worst)}; "
        f"the best-off ({words.quoted(best['group'])}): {reading.best.change(best)}"
    )
    if hurt and loses:
        return "Both ends got worse", facts
    if kind == "fell" and loses:
        return "Partly levelling down: the gap shrank from both ends" if gains else _LEVELLED, facts
    if kind == "fell" and gains:
        gained = "because the worst-off subgroup gained; the best-off did not clearly lose"
        return f"The gap shrank {gained}", facts
    if kind == "fell":
        return "The gap shrank, but neither end clearly changed", facts
    if kind == "rose":
        return "The gap grew", facts
    return "The worst-off subgroup got worse" if hurt else "The gap did not clearly change", facts


def _extremes(view: View) -> Iterator[dict[str, Any]]:
    """Result rows for worst-off, best-off and gap, with `what` and the name of the `group`."""
    for measure in (view.reading.worst, view.reading.best, view.reading.gap):
        row = view.row(measure)
        if row is not None and math.isfinite(row["value"]):
            group = end_named(view, measure, row)
            what = measure.word.name + (f": {group}" if group else " between worst and best")
            yield {**row, "group": group, "what": what, "measure": measure}


def end_named(view: View, measure: Measure, row: Mapping[str, Any]) -> str:
    """Which subgroup the dense model's worst or best is: the one the row names, or whose value is
    the reported one.

    "" for a measure that is of neither end.
    """
    if measure.metric not in (view.reading.worst.metric, view.reading.best.metric):
        return ""
    if measure.names_group and row.get("group"):
        return words.group_name(str(row["group"]))
    dense, here = view.row(measure, "dense"), view.groups("dense")
    if dense is None or here.empty:
        return ""
    nearest = (here["value"] - dense["value"]).abs()
    return words.group_name(here.loc[nearest.idxmin(), "group"]) if nearest.min() < 1e-6 else ""


def _changes(view: View, table: pd.DataFrame) -> go.Figure:
    records, method, choice = table.to_dict("records"), view.variant["method"], view.choice
    said = [
        f"<b>{plain(row['what'])}</b><br>change {row['measure'].change(row)}" for row in records
    ]
    figure = dots(
        choice,
        table.assign(method=method, hover=said),
        "delta",
        {what: wrapped(what, 18) for what in table["what"]},
        {method: view.track.style(method, choice.dark)},
        f"change of {plain(view.reading.group.name)}",
        row="what",
    )
    for place, row in enumerate(records):
        text, where = row["measure"].signed(row["delta"]), {"x": row["delta"], "y": place}
        figure.add_annotation(**where, text=text, showarrow=False, yshift=16)
    return figure

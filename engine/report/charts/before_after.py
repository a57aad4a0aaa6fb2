"""The harm before and after the cut, each with its interval, beside what chance alone would give:
how sure are we?"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import dots
from engine.report.charts.marks import entry
from engine.report.charts.panel import Choice, Panel, nothing, plain, wrapped
from engine.report.contract import Measure
from engine.report.schema import readable
from engine.report.tracks import track_of
from engine.store.runs import Run

KEY = "before_after"


def before_after(run: Run, choice: Choice) -> Panel:
    """A row per model: the harm with its interval; grey is the range that chance alone would give
    there."""
    measure, variant = lookup.reading(run, choice).harm, lookup.variant_of(run, choice)
    question = (
        f"How sure is the {measure.name} of {words.axis_name(choice.measured)}, before and after?"
    )
    models = [("dense", track_of(run).whole, "dense")]
    if variant["variant"] != "dense":
        models.append((variant["variant"], lookup.variant_label(run, variant), variant["method"]))
    found = [(name, method, lookup.harm(run, key, choice)) for key, name, method in models]
    rows = [
        (name, method, row)
        for name, method, row in found
        if row is not None and math.isfinite(row["value"])
    ]
    if not rows:
        return nothing(KEY, question, f"The {measure.name} was not measured here.")
    figure = _figure(run, choice, measure, rows)
    if any(math.isfinite(row["null_high"]) for _, _, row in rows):
        square = {"symbol": "square", "size": 12, "color": choice.theme.band}
        entry(figure, "what chance alone would give", mode="markers", marker=square)
    return Panel(
        KEY, question, _answer(measure, rows), figure, _table(rows), lookup.caveat(run, rows[-1][2])
    )


def _figure(
    run: Run, choice: Choice, measure: Measure, rows: list[tuple[str, str, dict[str, Any]]]
) -> go.Figure:
    table = pd.DataFrame([{**row, "method": method} for _, method, row in rows])
    said = [
        f"<b>{plain(name)}</b><br>{measure.with_interval(row)}<br>{measure.null_said(row)}"
        for name, _, row in rows
    ]
    figure = dots(
        choice,
        table.assign(hover=said, size=14),
        "value",
        {method: wrapped(phrasing.sentence(name), 18) for name, method, _ in rows},
        {method: track_of(run).style(method, choice.dark) for _, method, _ in rows},
        measure.title,
        apart=0,
        zero=False,
    )
    figure.update_xaxes(rangemode="tozero")
    return figure


def _answer(measure: Measure, rows: list[tuple[str, str, dict[str, Any]]]) -> str:
    said = [f"{name}: {measure.with_interval(row)}" for name, _, row in rows]
    change = f"; change {measure.change(rows[1][2])}" if len(rows) > 1 else ""
    return f"{phrasing.sentence('; '.join(said))}{change}."


def _table(rows: list[tuple[str, str, dict[str, Any]]]) -> pd.DataFrame:
    table = pd.DataFrame([{**row, "model": name} for name, _, row in rows])
    return readable(table, "model value low high null_low null_high")


QUESTION = "Who pays?"
ROW = 41
"""Pixels that a group needs: two points, and a name with its number."""
REST = 92
"""Pixels of the legend and the axis."""
LEAST = 220


def who_pays_small(run: Run, choice: Choice) -> Panel:
    """The track's first chart under a short title, with rows as low as can be read."""
    panel = track_of(run).overview.beside[0](run, choice)
    if panel.figure is None:
        return replace(panel, question=QUESTION)
    rows = sum(1 for name in panel.figure.layout.yaxis.ticktext or () if str(name).strip())
    height = (
        min(panel.figure.layout.height, max(LEAST, REST + ROW * rows))
        if rows
        else panel.figure.layout.height
    )
    return replace(
        panel, question=QUESTION, figure=go.Figure(panel.figure).update_layout(height=height)
    )

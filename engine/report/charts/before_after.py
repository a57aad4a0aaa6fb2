"""The harm before and after the cut, each with its interval, beside what chance alone would give:
how sure are we?"""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import dots
from engine.report.charts.lookup import View
from engine.report.charts.marks import entry
from engine.report.charts.panel import Choice, Panel, nothing, plain, wrapped
from engine.report.schema import readable
from engine.report.tracks import track_of
from engine.store.runs import Run

KEY = "before_after"


def before_after(run: Run, choice: Choice) -> Panel:
    """A row per model: the harm with its interval; grey is the range that chance alone would give
    there."""
    view = View(run, choice)
    measure, variant = view.reading.harm, view.variant
    question = (
        f"How sure is the {measure.name} of {words.axis_name(choice.measured)}, before and after?"
    )
    models = [(view.dense, {"model": view.track.whole, "method": "dense"})]
    if not view.is_dense:
        label = lookup.variant_label(run, variant)
        models.append((view.harm, {"model": label, "method": variant["method"]}))
    rows = [{**row, **names} for row, names in models if row and math.isfinite(row["value"])]
    if not rows:
        return nothing(KEY, question, f"The {measure.name} was not measured here.")
    table = pd.DataFrame(rows)
    figure = _figure(view, table)
    if table["null_high"].map(math.isfinite).any():
        square = {"symbol": "square", "size": 12, "color": choice.theme.band}
        entry(figure, "what chance alone would give", mode="markers", marker=square)
    said = "; ".join(f"{row['model']}: {measure.with_interval(row)}" for row in rows)
    change = f"; change {measure.change(rows[1])}" if len(rows) > 1 else ""
    shown = readable(table, "model value low high null_low null_high")
    note = lookup.caveat(run, rows[-1])
    return Panel(KEY, question, f"{phrasing.sentence(said)}{change}.", figure, shown, note)


def _figure(view: View, table: pd.DataFrame) -> go.Figure:
    measure, dark = view.reading.harm, view.choice.dark
    said = [
        f"<b>{plain(row['model'])}</b><br>{measure.with_interval(row)}<br>{measure.null_said(row)}"
        for row in table.to_dict("records")
    ]
    named = zip(table["method"], table["model"], strict=True)
    figure = dots(
        view.choice,
        table.assign(hover=said, size=14),
        "value",
        {method: wrapped(phrasing.sentence(name), 18) for method, name in named},
        {method: view.track.style(method, dark) for method in table["method"]},
        measure.title,
        apart=0,
        zero=False,
    )
    figure.update_xaxes(rangemode="tozero")
    return figure


QUESTION = "Who pays?"
ROW = 41
"""Pixels that a group needs: two points, and a name with its number."""
REST = 92
"""Pixels of the legend and the axis."""
LEAST = 220


def who_pays_small(run: Run, choice: Choice) -> Panel:
    """The track's first chart under a short title, with rows as low as can be read."""
    panel = replace(track_of(run).charts.groups(run, choice), question=QUESTION)
    if panel.figure is None:
        return panel
    height = panel.figure.layout.height
    if rows := sum(bool(str(name).strip()) for name in panel.figure.layout.yaxis.ticktext or ()):
        height = min(height, max(LEAST, REST + ROW * rows))
    return replace(panel, figure=go.Figure(panel.figure).update_layout(height=height))

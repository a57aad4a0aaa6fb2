"""Lines over weight updates: what is known of every batch as a running mean, looks at validation
images as points."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.report.charts.marks import dot
from engine.report.charts.panel import Choice, blank
from engine.report.palette import Style

SMOOTH = 15
"""Updates over which what is known of every batch is averaged for a chart; tables have every
update."""
LOOKS = ("gap", "accuracy", "val_loss")
"""Columns of what a look at validation images found; the others are known of every batch."""


def updates_figure(choice: Choice, height: int, title: str, ticks: int, legend: float) -> go.Figure:
    """An empty column over weight updates; `ticks` on the y axis at most, `legend`: how high it
    lies."""
    figure = blank(choice, height, "weight updates")
    figure.update_xaxes(nticks=5, tickangle=0, rangemode="tozero")
    figure.update_yaxes(nticks=ticks, rangemode="tozero" if title == "Gap" else "normal")
    figure.update_layout(legend={"y": legend, "font": {"size": 12}}, margin={"t": 30})
    return figure


def smooth(rows: pd.DataFrame, column: str) -> pd.Series:
    """A column of one training by step: looks as they are, anything else as a running mean."""
    values = rows[column]
    return values if column in LOOKS else values.rolling(SMOOTH, min_periods=1, center=True).mean()


def line_look(
    column: str, style: Style, width: float, size: float, dash: str = "dot"
) -> dict[str, Any]:
    """How a column is drawn: looks as points on a line, what is known of every batch as a line of
    this `dash`."""
    looks = column in LOOKS
    line = {"color": style.colour, "width": width, "dash": "solid" if looks else dash}
    return {"mode": "lines+markers" if looks else "lines", "line": line, "marker": dot(style, size)}

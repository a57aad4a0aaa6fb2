"""What every panel is and shares: the choice of the reader, the panel itself, its layout."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from engine.export.palette import Theme, theme

CONFIG = {"showSendToCloud": False, "plotlyServerURL": "", "displaylogo": False, "responsive": True}
"""Plotly's own configuration: never offer to upload the data (FACTS: on by default)."""

FONT = '"Source Sans", "Source Sans Pro", "Source Sans 3", system-ui, "Segoe UI", "DejaVu Sans", sans-serif'


@dataclass(frozen=True)
class Choice:
    """What the reader looks at. `axis` is the target of the pruning; `measured_axis` the one to read (None: same)."""

    method: str
    axis: str
    sparsity: float
    measured_axis: str | None = None
    reading: str = "group_means"
    dark: bool = False

    @property
    def measured(self) -> str:
        return self.measured_axis or self.axis

    @property
    def theme(self) -> Theme:
        return theme(self.dark)


@dataclass(frozen=True)
class Panel:
    """A question, the answer computed from the data, the chart, the table behind it and what it cannot show."""

    key: str
    question: str
    answer: str
    figure: go.Figure | None
    table: pd.DataFrame
    caveat: str


def blank(choice: Choice, height: int, x: str = "", y: str = "") -> go.Figure:
    """An empty figure in the house style: transparent, few gridlines, legend above, room for long labels."""
    look = choice.theme
    axis = {"gridcolor": look.grid, "zeroline": False, "linecolor": look.grid, "automargin": True,
            "title": {"font": {"size": 13, "color": look.soft}, "standoff": 10}}  # fmt: skip
    figure = go.Figure()
    figure.update_layout(
        height=height,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "size": 13, "color": look.ink},
        margin={"l": 10, "r": 16, "t": 16, "b": 10},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom",
                "bgcolor": "rgba(0,0,0,0)", "itemclick": "toggle"},
        hoverlabel={"align": "left", "bgcolor": look.paper, "bordercolor": look.grid,
                    "font": {"color": look.ink, "family": FONT}},
        hovermode="closest",
        dragmode=False,
    )  # fmt: skip
    figure.update_xaxes(**axis, title_text=x, showgrid=False)
    figure.update_yaxes(**axis, title_text=y)
    return figure


def plain(text: str) -> str:
    """A name from the user's files as it is: figures read some HTML, which such a name must not become."""
    return html.escape(text, quote=False)


def wrapped(text: str, width: int = 16) -> str:
    """A label broken with <br>, so that it leaves room on a narrow screen. The text is taken literally."""
    return "<br>".join(plain(line) for line in textwrap.wrap(text, width)) or " "


def apart(values: Sequence[float], gap: float) -> list[float]:
    """Positions for labels near `values`, at least `gap` apart, order kept, moved as little as is easy."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    placed = [values[index] for index in order]
    for _ in range(100):
        moved = False
        for low in range(len(placed) - 1):
            overlap = gap - (placed[low + 1] - placed[low])
            if overlap > gap * 1e-6:
                placed[low] -= overlap / 2
                placed[low + 1] += overlap / 2
                moved = True
        if not moved:
            break
    result = [0.0] * len(values)
    for place, index in zip(placed, order, strict=True):
        result[index] = place
    return result


def needs_log(values: Sequence[float]) -> bool:
    """Whether positive values spread so far that a linear axis would hide most of them."""
    finite = [value for value in values if math.isfinite(value) and value > 0]
    return bool(finite) and max(finite) / min(finite) > 20


def nothing(key: str, question: str, why: str) -> Panel:
    """A panel for a table the run does not have: says so instead of drawing."""
    return Panel(key, question, why, None, pd.DataFrame(), "")

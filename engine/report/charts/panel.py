"""What every panel is and shares: the choice of the reader, the panel itself, its layout."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pandas as pd
import plotly.graph_objects as go

from engine.core.text import visible
from engine.core.types import Values
from engine.report.palette import Theme, theme

CONFIG = {"showSendToCloud": False, "plotlyServerURL": "", "displaylogo": False, "responsive": True}
"""Plotly's own configuration: never offer to upload the data, as it does by default."""

FONT = (
    '"Source Sans", "Source Sans Pro", "Source Sans 3", system-ui, "Segoe UI", "DejaVu Sans",'
    " sans-serif"
)


@dataclass(frozen=True)
class Choice:
    """What the reader looks at. `axis` is the target of the pruning; `measured_axis` the one to
    read (None: same).

    `level` is how much is cut, in the track's own measure: a share of heads, a speedup. `reading`
    says by which measures of harm and quality.

    tolerance: how much worse a group may get, in the unit of what is measured per group;
    quality_tolerance: as a share of what the quality was. Advice is given by both. variant: which
    of several of this method and level is read; "", or none of them: the first.
    """

    method: str
    axis: str
    level: float
    measured_axis: str | None = None
    reading: str = "group_means"
    dark: bool = False
    tolerance: float = 0.05
    quality_tolerance: float = 0.05
    variant: str = ""

    @property
    def measured(self) -> str:
        return self.measured_axis or self.axis

    @property
    def theme(self) -> Theme:
        return theme(self.dark)

    def accepting(self, **tolerances: float) -> Choice:
        """The same choice by other tolerances, those that are given."""
        return replace(self, **cast(Any, tolerances))


@dataclass(frozen=True)
class Panel:
    """A question, the answer computed from the data, the chart, the table behind it and what it
    cannot show.

    The answer is one sentence. `mind` must be read with it (what chance gives, levelling down) and
    is always in sight. `more` is what else the data say: a screen keeps it behind "How measured",
    files show it in full. A chart of several columns has `parts` instead of a `figure`: a screen
    puts them where it has room. Their y axes are one, unless `own_axes`.
    """

    key: str
    question: str
    answer: str
    figure: go.Figure | None
    table: pd.DataFrame
    caveat: str
    parts: tuple[go.Figure, ...] = ()
    own_axes: bool = False
    mind: str = ""
    more: str = ""

    def __post_init__(self) -> None:
        for name in (
            "question",
            "answer",
            "caveat",
            "mind",
            "more",
        ):  # warnings of a run quote names of the user's
            object.__setattr__(self, name, visible(getattr(self, name)))

    @property
    def said(self) -> str:
        """The whole answer, as files show it."""
        return " ".join(filter(None, (self.answer, self.mind, self.more)))

    @property
    def has_chart(self) -> bool:
        return self.figure is not None or bool(self.parts)

    def whole(self) -> go.Figure | None:
        """The chart as one figure; columns beside each other, put together now."""
        return beside(self.parts, self.own_axes) if self.parts else self.figure


def blank(choice: Choice, height: int, x: str = "", y: str = "") -> go.Figure:
    """An empty figure in the house style: transparent, few gridlines, legend above, room for long
    labels. Made in one go: plotly takes ten times as long to change one."""
    look, clear = choice.theme, "rgba(0,0,0,0)"
    title = {"font": {"size": 13, "color": look.soft}, "standoff": 10}
    axis = {"gridcolor": look.grid, "zeroline": False, "linecolor": look.grid, "automargin": True}
    layout = {
        "height": height,
        "paper_bgcolor": clear,
        "plot_bgcolor": clear,
        "font": {"family": FONT, "size": 13, "color": look.ink},
        "margin": {"l": 10, "r": 16, "t": 16, "b": 10},
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
            "bgcolor": clear,
            "itemclick": "toggle",
        },
        "hoverlabel": {
            "align": "left",
            "bgcolor": look.paper,
            "bordercolor": look.grid,
            "font": {"color": look.ink, "family": FONT},
        },
        "hovermode": "closest",
        "dragmode": False,
        "xaxis": {**axis, "title": {**title, "text": x}, "showgrid": False},
        "yaxis": {**axis, "title": {**title, "text": y}},
    }
    return go.Figure(layout=layout)


def beside(parts: Sequence[go.Figure], own_axes: bool = False) -> go.Figure:
    """Figures as columns of one, with one y axis and one legend, those of the first. Their y ranges
    must be equal, unless each keeps its own axis."""
    if len(parts) == 1:
        return parts[0]
    gap, plain_parts = 0.11 if own_axes else 0.035, [part.to_plotly_json() for part in parts]
    width = (1 - gap * (len(parts) - 1)) / len(parts)
    data: list[dict[str, Any]] = []
    layout = {**plain_parts[0]["layout"], "shapes": [], "annotations": []}
    for place, part in enumerate(plain_parts):
        start, number = place * (width + gap), "" if place == 0 else str(place + 1)
        own = part["layout"]
        layout[f"xaxis{number}"] = {
            **own["xaxis"],
            "domain": [start, start + width],
            "anchor": f"y{number}",
        }
        layout[f"yaxis{number}"] = {**own["yaxis"], "anchor": f"x{number}"}
        if place and not own_axes:
            layout[f"yaxis{number}"] |= {
                "matches": "y",
                "showticklabels": False,
                "title": {"text": ""},
            }
        traces = [
            trace for trace in part["data"] if not place or list(trace.get("x", ())) != [None]
        ]
        more = {
            "xaxis": f"x{number}",
            "yaxis": f"y{number}",
            **({"showlegend": False} if place else {}),
        }
        data += [{**trace, **more} for trace in traces]
        for kind in ("shapes", "annotations"):
            layout[kind] += [_moved(one, number, start, width) for one in own.get(kind, ())]
    return go.Figure({"data": data, "layout": layout})


def _moved(one: Values, number: str, start: float, width: float) -> Values:
    """A shape or annotation of a figure that has become a column."""
    found = dict(one)
    for axis in ("x", "y"):
        if str(one.get(f"{axis}ref", "")).startswith(axis):
            found[f"{axis}ref"] = one[f"{axis}ref"].replace(axis, f"{axis}{number}", 1)
    if one.get("xref") == "paper":
        found |= {name: start + width * one[name] for name in ("x", "x0", "x1") if name in one}
    return found


def ratio_axis(figure: go.Figure, places: Sequence[float], asked: Sequence[float]) -> None:
    """A logarithmic x axis of speedups, ticks where they were asked for."""
    levels = sorted({float(value) for value in asked if value > 0})
    least, most = (pick([*places, *levels], default=1.0) for pick in (min, max))
    room = 0.08 * max(math.log10(most / least), 0.1)
    figure.update_xaxes(
        type="log",
        tickvals=levels,
        ticktext=[f"{value:g}×" for value in levels],
        tickangle=0,
        range=[math.log10(least) - room, math.log10(most) + room],
    )


def plain(text: str) -> str:
    """A name from the user's files as it is: figures read some HTML, which such a name must not
    become."""
    return html.escape(visible(text), quote=False)


def wrapped(text: str, width: int = 16) -> str:
    """A label broken with <br>, so that it leaves room on a narrow screen. The text is taken
    literally."""
    return "<br>".join(plain(line) for line in textwrap.wrap(text, width)) or " "


def apart(values: Sequence[float], gap: float) -> list[float]:
    """Positions for labels near `values`, at least `gap` apart, order kept, moved as little as is
    easy."""
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
    """Whether values spread so far that a linear axis would hide most of them; never where one has
    no logarithm."""
    finite = [value for value in values if math.isfinite(value)]
    return bool(finite) and min(finite) > 0 and max(finite) / min(finite) > 20


def scale(is_log: bool) -> dict[str, str]:
    """An axis whose ticks say whole numbers: plotly writes 200 between 100 and 1000 as "2"."""
    return {"type": "log", "tickformat": "~g"} if is_log else {"type": "linear"}


def nothing(key: str, question: str, why: str) -> Panel:
    """A panel for a table the run does not have: says so instead of drawing."""
    return Panel(key, question, why, None, pd.DataFrame(), "")

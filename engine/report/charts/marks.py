"""What charts are drawn of: points with intervals and hovers, bands, fronts, names of rows,
headings, legends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.report.charts.panel import Choice
from engine.report.palette import Style

HOVER = "%{text}<extra></extra>"
"""A hover that is the point's own text."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""Dashes of lines beside each other that colour alone shall not tell apart."""
BELOW = {"font": {"size": 11}, "y": -0.25, "yanchor": "top"}
"""A legend below its chart."""
ON_STRONG = {False: "#ffffff", True: "#0b0f14"}
"""Ink on the strong end of a scale of colours, in a light and in a dark theme."""


def hover(bold: str, *lines: str) -> str:
    """The text of a hover: a bold head, then those of the lines that say something. "" leaves a
    line out."""
    return "<br>".join([f"<b>{bold}</b>", *filter(None, lines)])


def bars(
    value: Any, low: Any, high: Any, colour: str, thickness: float, width: int = 0
) -> dict[str, Any]:
    """Error bars from interval ends: numbers of one point, or columns [points] of several."""
    up, down = high - value, value - low
    if not isinstance(up, pd.Series):
        up, down = [up], [down]
    ends = {
        "array": up,
        "arrayminus": down,
        "color": colour,
        "thickness": thickness,
        "width": width,
    }
    return {"type": "data", "symmetric": False, **ends}


def bars_of(
    table: pd.DataFrame,
    colour: str,
    thickness: float,
    value: str = "value",
    low: str = "low",
    high: str = "high",
    width: int = 0,
) -> dict[str, Any]:
    """Error bars of a table's rows, from columns of its value and its interval's ends."""
    return bars(table[value], table[low], table[high], colour, thickness, width)


def dot(style: Style, size: float, rim: float | None = None, symbol: str = "") -> dict[str, Any]:
    """A marker; `rim`: width in pixels of an outline in its own colour."""
    line = {} if rim is None else {"line": {"width": rim, "color": style.colour}}
    return {"symbol": symbol or style.symbol, "size": size, "color": style.colour, **line}


def add_points(
    figure: go.Figure, x: Any, y: Any, hovers: Iterable[str], marker: dict[str, Any], **more: Any
) -> None:
    """Points with a hover of their own each. `x`, `y`: [points]; `more`: anything else of a scatter
    trace."""
    how = {"mode": "markers", "hovertemplate": HOVER, **lasting(marker), **more}
    figure.add_scatter(x=x, y=y, text=list(hovers), marker=marker, **how)


def lasting(marker: dict[str, Any]) -> dict[str, Any]:
    """What keeps the strength of marks when another point of the chart is picked; Plotly fades them
    all by itself."""
    opacity = marker.get("opacity", 1)
    return {
        "unselected": {"marker": {"opacity": opacity if isinstance(opacity, (int, float)) else 1}}
    }


def silent(figure: go.Figure, x: Any, y: Any, **more: Any) -> None:
    """Points or lines that say nothing when they are pointed at and stand in no legend."""
    kept = lasting(more["marker"]) if "marker" in more else {}
    figure.add_scatter(x=x, y=y, hoverinfo="skip", **{"showlegend": False, **kept, **more})


def entry(figure: go.Figure, name: str, **more: Any) -> None:
    """A trace that is only in the legend."""
    figure.add_scatter(
        x=[None], y=[None], name=name, **{"showlegend": True, "hoverinfo": "skip", **more}
    )


def heading(figure: go.Figure, text: str, **more: Any) -> None:
    """The name of a column of a chart, above it at its left; the legend goes above that."""
    where = {
        "x": 0,
        "xanchor": "left",
        "y": 1,
        "yanchor": "bottom",
        "yshift": 2,
        "font": {"size": 14},
        **more,
    }
    figure.add_annotation(
        xref="paper", yref="paper", showarrow=False, text=f"<b>{text}</b>", **where
    )


def title(figure: go.Figure, text: str) -> None:
    """The name of a column of a chart, above its middle."""
    where = {"x": 0.5, "y": 1, "yanchor": "bottom", "font": {"size": 14}}
    figure.add_annotation(
        xref="paper", yref="paper", showarrow=False, text=f"<b>{text}</b>", **where
    )


def remark(figure: go.Figure, choice: Choice, text: str, **where: Any) -> None:
    """A few soft words inside a chart."""
    figure.add_annotation(
        text=text, showarrow=False, font={"size": 11, "color": choice.theme.soft}, **where
    )


def null_band(
    figure: go.Figure, choice: Choice, x: list[float], low: list[float], high: list[float]
) -> None:
    """A grey band along x: x, low and high are [points] each."""
    band = {"fill": "toself", "fillcolor": choice.theme.band, "line": {"width": 0}, "mode": "lines"}
    silent(figure, x + x[::-1], high + low[::-1], **band)


def row_band(figure: go.Figure, choice: Choice, place: float, half: float) -> None:
    """A row of a chart on grey, `half` a row's height to both sides."""
    low, high = place - half, place + half
    figure.add_hrect(y0=low, y1=high, fillcolor=choice.theme.band, line_width=0, layer="below")


def row_range(
    figure: go.Figure, choice: Choice, place: float, low: float, high: float, half: float
) -> None:
    """A grey range from low to high inside one row: what chance gives."""
    ends = {"x0": low, "x1": high, "y0": place - half, "y1": place + half}
    figure.add_shape(type="rect", **ends, fillcolor=choice.theme.band, line_width=0, layer="below")


def row_outline(
    figure: go.Figure, choice: Choice, place: float, low: float, high: float, half: float
) -> None:
    """A dashed outline from low to high inside one row: a second range of what chance gives."""
    ends = {"x0": low, "x1": high, "y0": place - half, "y1": place + half}
    figure.add_shape(
        type="rect",
        **ends,
        line={"color": choice.theme.soft, "width": 1.2, "dash": "dash"},
        layer="below",
    )


def front_line(figure: go.Figure, choice: Choice, x: pd.Series, y: pd.Series, **more: Any) -> None:
    """The dotted line of a front through its points, in order of x."""
    line = {"shape": "vh", "width": 1.2, "dash": "dot", "color": choice.theme.ink}
    silent(figure, x, y, mode="lines", line=line, **more)


def row_names(figure: go.Figure, names: Sequence[str], upwards: bool = False) -> None:
    """Names of rows on the y axis, the first on top; `upwards`: at the bottom."""
    room = [-0.6, len(names) - 0.4]
    rows = {
        "tickvals": list(range(len(names))),
        "ticktext": list(names),
        "range": room if upwards else room[::-1],
    }
    figure.update_yaxes(**rows, showgrid=False)


def faint(colour: str, alpha: float) -> str:
    """A colour "#rrggbb" seen through."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def chosen_last(names: Sequence[str], chosen: str) -> list[str]:
    """The names with the chosen one at the end: what is drawn last lies on top."""
    return sorted(names, key=lambda name: name == chosen)


def beside(count: int, step: float) -> list[float]:
    """How far each of several lines is moved along an axis, so that their bars do not hide each
    other."""
    return [(place - (count - 1) / 2) * step for place in range(count)]


def around(count: int, step: float) -> list[float]:
    """As `beside`, but the last line, the chosen one, stands in its true place."""
    return sorted(beside(count | 1, step), key=abs)[:count][::-1]

"""Kinds of chart: lines along an amount, dots with intervals in rows, scatters of two measures.

Each takes a frame, a row per point, and draws its axes, intervals, hovers, legend and null band. A
frame may say more of its points: `hover`, and where they are not the series' own, `symbol`, `size`,
`opacity` and `aside` (how far from the middle of its row).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values
from engine.report.charts.panel import Choice, blank
from engine.report.palette import Style, series_styles
from engine.report.schema import ends_of

# What charts are drawn of: points with intervals and hovers, bands, fronts, names of rows,
# headings, legends.


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
    value: pd.Series, low: pd.Series, high: pd.Series, colour: str, thickness: float
) -> Values:
    """Error bars of points, from the ends of their intervals, [points] each."""
    look = {"color": colour, "thickness": thickness, "width": 0}
    ends = {"array": high - value, "arrayminus": value - low}
    return {"type": "data", "symmetric": False, **ends, **look}


def bars_of(table: pd.DataFrame, column: str, colour: str, thickness: float) -> Values:
    """Error bars of a table's rows, from a column and the ends that belong to it
    (`schema.ends_of`)."""
    low, high = ends_of(table, column)
    return bars(table[column], table[low], table[high], colour, thickness)


def dot(style: Style, size: float, rim: float | None = None) -> Values:
    """A marker; `rim`: width in pixels of an outline in its own colour."""
    line = {} if rim is None else {"line": {"width": rim, "color": style.colour}}
    return {"symbol": style.symbol, "size": size, "color": style.colour, **line}


def add_points(
    figure: go.Figure, x: Any, y: Any, hovers: Iterable[str], marker: Values, **more: Any
) -> None:
    """Points with a hover of their own each. `x`, `y`: [points]; `more`: anything else of a scatter
    trace."""
    how = {"mode": "markers", "hovertemplate": HOVER, **lasting(marker), **more}
    figure.add_scatter(x=x, y=y, text=list(hovers), marker=marker, **how)


def lasting(marker: Values) -> Values:
    """What keeps the strength of marks when another point of the chart is picked; Plotly fades them
    all by itself."""
    opacity = marker.get("opacity")
    kept = opacity if isinstance(opacity, (int, float)) else 1
    return {"unselected": {"marker": {"opacity": kept}}}


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
    heading(figure, text, x=0.5, xanchor=None, yshift=None)


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


def row_range(
    figure: go.Figure,
    choice: Choice,
    place: float,
    low: float,
    high: float,
    half: float,
    outlined: bool = False,
) -> None:
    """A grey range from low to high inside one row: what chance gives. outlined: dashed instead,
    for a second one."""
    ends = {"x0": low, "x1": high, "y0": place - half, "y1": place + half}
    look = {"fillcolor": choice.theme.band, "line_width": 0}
    if outlined:
        look = {"line": {"color": choice.theme.soft, "width": 1.2, "dash": "dash"}}
    figure.add_shape(type="rect", **ends, **look, layer="below")


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


Named = Callable[[Any], str]
HALF = 0.7
"""Share of a row's height over which its dots are spread."""


def looks_of(choice: Choice, names: Sequence[str]) -> dict[str, Style]:
    """Colours, symbols and dashes of things without a look of their own, again from the first where
    there are more than colours."""
    looks = zip(names, cycle(series_styles(choice.dark)), cycle(DASHES), strict=False)
    return {name: replace(style, dash=dash) for name, style, dash in looks}


def add_series(
    figure: go.Figure,
    rows: pd.DataFrame,
    x: Any,
    y: Any,
    style: Style,
    chosen: bool | None = None,
    bars: str = "",
    **more: Any,
) -> None:
    """One series of a chart. `chosen`: heavier than the others, lighter, or as all (None).

    bars: columns whose ends (`schema.ends_of`) are drawn along x and y, apart by a blank; "-" for
    none. more: anything else of the trace.
    """
    marker = {
        "symbol": style.symbol,
        "size": {True: 10, None: 9}.get(chosen, 7),
        "color": style.colour,
        "line": {"width": 1.6, "color": style.colour},
    }
    for name in {"symbol", "size", "opacity"} & set(rows):
        marker[name] = rows[name].fillna(marker.get(name, 1))
    for axis, column in zip("xy", bars.split(), strict=False):
        if column != "-":
            thick = 1.2 if chosen is False else 1.8
            more[f"error_{axis}"] = bars_of(rows, column, style.colour, thick)
    width = {True: 3, None: 2}.get(chosen, 1.5)
    line = {"color": style.colour, "width": width, "dash": style.dash}
    look = {"mode": "lines+markers", "line": line, "opacity": 0.85 if chosen is False else 1}
    add_points(figure, x, y, rows.get("hover", ()), marker, **{**look, **more})


def lines(
    choice: Choice,
    table: pd.DataFrame,
    x: str,
    y: str,
    looks: Mapping[str, Style],
    titles: tuple[str, str],
    *,
    by: str = "method",
    named: Named = words.method_name,
    height: int = 360,
    title: str = "",
    apart: float = 0.0,
    bars: str = "",
    few: int = 99,
    chosen: Any = None,
    level: tuple[float, str] | None = None,
    band: pd.DataFrame | None = None,
    ticks: str = ".0%",
    **more: Any,
) -> go.Figure:
    """A line per series, of `looks` in their order, over x; the chosen one heavier and on top.

    titles: of the axes. chosen: a series, where it is not the choice's method. apart: how far lines
    are moved from each other along x. few: series up to which all have their intervals, `bars`; of
    more, the chosen one. level: a value to compare with and its name, a dotted line. band: rows
    with `null_low` and `null_high`, a grey band along x.
    """
    room = 10 * len(looks) if more.get("showlegend", True) else 0
    figure = blank(choice, height + room, *titles)
    if band is not None and len(band) > 1:
        null_band(figure, choice, *(band[name].tolist() for name in (x, "null_low", "null_high")))
    if level is not None:
        line = {"color": choice.theme.ink, "width": 1, "dash": "dot"}
        figure.add_hline(y=level[0], line=line)
        end = {"x": 1, "xref": "paper", "xanchor": "right", "y": level[0], "yanchor": "bottom"}
        remark(figure, choice, level[1], **end)
    order, first = list(looks), choice.method if chosen is None else chosen
    for name, shift in zip(chosen_last(order, first), around(len(order), apart), strict=True):
        rows = table[table[by] == name]
        heavy = name == first if first in order else None
        look = {"name": named(name), "legendrank": 1 + order.index(name), **more}
        ends = bars if heavy or len(order) <= few else ""
        add_series(figure, rows, rows[x] + shift, rows[y], looks[name], heavy, ends, **look)
    figure.update_xaxes(tickformat=ticks, nticks=5, tickangle=0)
    if ticks.endswith("%") and table[x].nunique() == 1:
        figure.update_xaxes(range=[0, 2 * table[x].max()])
    figure.update_yaxes(nticks=7)
    if title:
        heading(figure, title)
        figure.update_layout(legend={"y": 1.09, "font": {"size": 12}}, margin={"t": 30})
    return figure


def dots(
    choice: Choice,
    table: pd.DataFrame,
    value: str,
    rows: Mapping[Any, str],
    looks: Mapping[str, Style],
    title: str,
    *,
    row: str = "method",
    by: str = "method",
    named: Named = words.method_name,
    at: Any = None,
    apart: float | None = None,
    bars: str = "",
    zero: bool = True,
    **more: Any,
) -> go.Figure:
    """Points with the intervals of `value` in rows, from above; each row has a dot per series.

    rows: labels by what the column `row` holds. at: the row on grey. apart: how far the dots of a
    row are moved from each other, in rows; as far as there is room, where None. zero: whether a
    line stands there. Where the table has `null_low` and `null_high`, grey says what chance
    gives of values, not of their changes.
    """
    order, several = list(rows), 1 if apart == 0 else len(looks)
    tall = max(34 if len(rows) > 6 else 44, 22 * several + 16)
    figure = blank(choice, 110 + tall * len(rows), title)
    if zero:
        figure.add_vline(x=0, line={"color": choice.theme.ink, "width": 1})
    if at in rows:
        ends = {"y0": order.index(at) - 0.5, "y1": order.index(at) + 0.5}
        figure.add_hrect(**ends, fillcolor=choice.theme.band, line_width=0, layer="below")
    step = min(0.24, HALF / max(1, several)) if apart is None else apart
    has_chance = "null_low" in table and value != "delta"
    for chance in table.to_dict("records") if has_chance else ():
        if chance[row] in rows and math.isfinite(chance["null_low"]):
            place = order.index(chance[row])
            row_range(figure, choice, place, chance["null_low"], chance["null_high"], 0.36)
    for (name, style), shift in zip(looks.items(), beside(len(looks), step), strict=True):
        mine = table[(table[by] == name) & table[row].isin(order)]
        y = mine[row].map(order.index) + shift + mine.get("aside", 0.0)
        look = {"mode": "markers", "name": named(name), "showlegend": several > 1, **more}
        add_series(figure, mine, mine[value], y, style, None, bars or value, **look)
    row_names(figure, list(rows.values()))
    figure.update_xaxes(showgrid=True, nticks=6, tickangle=0)
    return figure


def diagonal(figure: go.Figure, choice: Choice, low: float, high: float, **more: Any) -> None:
    """A dashed line on which both measures are the same."""
    line = {"color": choice.theme.soft, "dash": "dash", "width": 1}
    silent(figure, [low, high], [low, high], mode="lines", line=line, **more)


def points(
    choice: Choice,
    table: pd.DataFrame,
    x: str,
    y: str,
    titles: tuple[str, str],
    *,
    height: int = 380,
    title: str = "",
    zero: str = "y",
    **more: Any,
) -> go.Figure:
    """A scatter of two measures, all points of one kind. zero: axes along which a soft line marks
    it."""
    figure, line = blank(choice, height, *titles), {"color": choice.theme.soft, "width": 1}
    if "x" in zero:
        figure.add_vline(x=0, line=line)
    if "y" in zero:
        figure.add_hline(y=0, line=line)
    look = {"mode": "markers", "showlegend": False, "opacity": 0.8, **more}
    add_series(figure, table, table[x], table[y], series_styles(choice.dark)[0], **look)
    figure.update_xaxes(showgrid=True, nticks=6)
    if title:
        heading(figure, title)
        figure.update_layout(margin={"t": 30})
    return figure

"""Kinds of chart: lines along an amount, dots with intervals in rows, scatters of two measures.

Each takes a frame, a row per point, and draws its axes, intervals, hovers, legend and null band. A
frame may say more of its points: `hover`, and where they are not the series' own, `symbol`, `size`,
`opacity` and `aside` (how far from the middle of its row).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report.charts.marks import (
    DASHES,
    add_points,
    around,
    bars_of,
    beside,
    chosen_last,
    heading,
    null_band,
    remark,
    row_band,
    row_names,
    row_range,
    silent,
)
from engine.report.charts.panel import Choice, blank
from engine.report.palette import Style, series_styles
from engine.report.schema import ends_of

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
            thick, ends = 1.2 if chosen is False else 1.8, ends_of(rows, column)
            more[f"error_{axis}"] = bars_of(rows, style.colour, thick, column, *ends)
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
        row_band(figure, choice, order.index(at), 0.5)
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

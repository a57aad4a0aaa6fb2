"""Null bands in charts, one filled, a second outlined; a single one has its words beside it, two
have a legend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.report.charts.kinds import entry, null_band, remark, silent
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.store.runs import Run

WORDS, GROUP = "null", "group_null"
"""How columns of each band begin: labels exchanged one by one, and whole clusters of them."""


def bands_in(run: Run, table: pd.DataFrame, label: str = "") -> dict[str, str]:
    """The null bands that a table of results holds: how their columns begin, and what a chart calls
    them. label: of the first, where it is another than the track's."""
    track = track_of(run)
    known = {WORDS: label or track.null.label, GROUP: track.null.group_label}
    return {start: said for start, said in known.items() if said and _known(table, start)}


def draw_along(
    figure: go.Figure,
    choice: Choice,
    start: str,
    x: list[float],
    low: list[float],
    high: list[float],
) -> None:
    """A band along x: x, low and high are [points] each."""
    if start == WORDS:
        null_band(figure, choice, x, low, high)
    else:
        silent(
            figure,
            x + x[::-1] + x[:1],
            high + low[::-1] + high[:1],
            mode="lines",
            line=_outline(choice),
        )


def draw_level(figure: go.Figure, choice: Choice, start: str, row: Mapping[str, Any]) -> None:
    """A band across the whole chart, from a row of results."""
    look = {"fillcolor": choice.theme.band, "line_width": 0}
    if start != WORDS:
        look = {"line": _outline(choice)}
    figure.add_hrect(y0=row[f"{start}_low"], y1=row[f"{start}_high"], layer="below", **look)


def name_bands(figure: go.Figure, choice: Choice, bands: Mapping[str, str], **where: Any) -> None:
    """One band: its words inside the chart, at `where`. Two: the legend."""
    if len(bands) == 1:
        remark(figure, choice, next(iter(bands.values())), **where)
        return
    square = {
        "mode": "markers",
        "marker": {"symbol": "square", "size": 13, "color": choice.theme.band},
    }
    for start, said in bands.items():
        entry(
            figure,
            said,
            **(square if start == WORDS else {"mode": "lines", "line": _outline(choice)}),
        )


def _outline(choice: Choice) -> dict[str, Any]:
    return {"width": 1.3, "dash": "dash", "color": choice.theme.soft}


def _known(table: pd.DataFrame, start: str) -> bool:
    return f"{start}_high" in table and bool(table[f"{start}_high"].notna().any())

"""Paired differences between two models on the same items: when one is claimed, and how it is said
and drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.report import phrasing
from engine.report.charts.marks import add_points, bars_of, dot
from engine.report.charts.panel import Choice, blank
from engine.report.contract import Measure
from engine.report.palette import Style

MAX_Q = 0.05
"""False discovery rate up to which a difference is claimed."""
BY_CHANCE = "by chance"


def as_change(row: Mapping[str, Any]) -> dict[str, Any]:
    """A difference (value, low, high) under the names of a change."""
    return {"delta": row["value"], "delta_low": row["low"], "delta_high": row["high"]}


def direction(row: Mapping[str, Any]) -> str:
    """What phrasing.direction gives; "by chance" where the interval leaves out zero and q is too
    large for a claim."""
    kind = phrasing.direction(as_change(row))
    return BY_CHANCE if kind in ("rose", "fell") and not row.get("q", 0.0) <= MAX_Q else kind


def verdict_on(measure: Measure, row: Mapping[str, Any]) -> str:
    """ "helps", "harms" or "unclear" from the interval of a difference."""
    kind = phrasing.direction(as_change(row))
    return {measure.better: "helps", measure.worse: "harms"}.get(kind, "unclear")


def q_said(row: Mapping[str, Any]) -> str:
    """The false discovery rate in a hover; "" where none was computed."""
    return f"q = {phrasing.number(row['q'])}" if math.isfinite(row["q"]) else ""


def around_zero(choice: Choice, height: int, x: str, colour: str) -> go.Figure:
    """An empty figure with a line where the difference is zero."""
    figure = blank(choice, height, x)
    figure.add_vline(x=0, line={"color": colour, "width": 1})
    figure.update_xaxes(showgrid=True, nticks=6)
    return figure


def add_differences(
    figure: go.Figure,
    table: pd.DataFrame,
    y: Sequence[float],
    style: Style,
    hovers: Sequence[str],
    marker: Mapping[str, Any] | None = None,
    thickness: float = 2,
    **more: Any,
) -> None:
    """A point with its interval per row of `table` (columns value, low, high) at the places `y`."""
    error = bars_of(table, style.colour, thickness)
    add_points(
        figure,
        table["value"],
        y,
        hovers,
        {**dot(style, 10), **(marker or {})},
        error_x=error,
        **more,
    )

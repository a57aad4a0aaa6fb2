"""Layer x head as a map: one number per head, cells that can be picked, a colour bar with words at its ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from engine.report.charts.panel import Choice, blank
from engine.store.runs import Run

BELOW = 92
"""Pixels below a map: its ticks, the name of its axis and the colour bar."""


@dataclass(frozen=True)
class Scale:
    """Colours of a map: from `low` to `high`, around zero or from one end, with ticks in words."""

    low: float
    high: float
    ticks: Sequence[float]
    texts: Sequence[str]
    diverges: bool = False


def head_grid(
    run: Run, choice: Choice, values: np.ndarray, scale: Scale, hover: Sequence[str], title: str = ""
) -> go.Figure:
    """A figure of the flat `values` (units,), NaN left blank; invisible points carry `hover` and the unit."""
    layers, heads = shape_of(run)
    look = choice.theme
    figure = blank(choice, cell_height(layers) * layers + BELOW + 46, "head", "layer")
    colours = look.diverging if scale.diverges else look.sequential
    figure.add_trace(go.Heatmap(
        z=np.asarray(values, dtype=float).reshape(layers, heads), x=list(range(heads)), y=list(range(layers)),
        colorscale=[list(stop) for stop in colours], zmin=scale.low, zmax=scale.high, xgap=2, ygap=2, hoverinfo="skip",
        hoverongaps=False, colorbar=_bar(choice, scale),
    ))  # fmt: skip
    figure.add_trace(points(run, choice, np.arange(layers * heads), hover))
    lay_out(figure, layers, heads)
    figure.update_layout(margin={"b": BELOW, "t": 40 if title else 28}, legend={"y": 1.0, "x": 0})
    if title:
        figure.add_annotation(x=0, xref="paper", y=1, yref="paper", yanchor="bottom", xanchor="left", showarrow=False,
                              text=f"<b>{title}</b>", font={"size": 14}, yshift=4)  # fmt: skip
        figure.update_layout(legend={"x": 1, "xanchor": "right"})
    return figure


def lay_out(figure: go.Figure, layers: int, heads: int) -> None:
    """The axes of a map: layer 0 on top, numbers at every cell or every fourth, nothing to zoom."""
    step = 1 if heads <= 16 else 4
    figure.update_xaxes(
        tickvals=list(range(0, heads, step)), range=[-0.5, heads - 0.5], showline=False, fixedrange=True
    )
    figure.update_yaxes(tickvals=list(range(0, layers, 1 if layers <= 16 else 4)), range=[layers - 0.5, -0.5])
    figure.update_yaxes(showgrid=False, showline=False, fixedrange=True)


def points(run: Run, choice: Choice, units: np.ndarray, hover: Sequence[str]) -> go.Scatter:
    """Invisible points over the cells of `units` (n,), with their texts: unlike cells they can be picked."""
    _, heads = shape_of(run)
    return go.Scatter(
        x=units % heads, y=units // heads, mode="markers", name="heads", showlegend=False, text=list(hover),
        customdata=units[:, None], hovertemplate="%{text}<extra></extra>",
        marker={"symbol": "square", "size": 24, "color": choice.theme.ink, "opacity": 0},
        selected={"marker": {"opacity": 0.25}}, unselected={"marker": {"opacity": 0}},
    )  # fmt: skip


def mark(
    figure: go.Figure, run: Run, choice: Choice, units: Sequence[int], symbol: str, name: str, thick: float = 2
) -> None:
    """Marks on some heads, with a name in the legend; none where there are none."""
    if not len(units):
        return
    _, heads = shape_of(run)
    size = int(max(4, min(11, 170 / heads)))
    marker = {"symbol": symbol, "size": size, "color": choice.theme.ink,
              "line": {"width": thick if size > 6 else 1, "color": choice.theme.ink}}  # fmt: skip
    figure.add_trace(go.Scatter(
        x=[unit % heads for unit in units], y=[unit // heads for unit in units], mode="markers", marker=marker,
        hoverinfo="skip", showlegend=False,
    ))  # fmt: skip
    figure.add_trace(go.Scatter(x=[None], y=[None], mode="markers", marker=marker, name=name, showlegend=True))


def shape_of(run: Run) -> tuple[int, int]:
    return int(run.meta["model"]["n_layers"]), int(run.meta["model"]["n_heads"])


def cell_height(layers: int) -> int:
    """Height of a cell in pixels."""
    return 40 if layers <= 6 else 34 if layers <= 8 else 28 if layers <= 12 else 24 if layers <= 24 else 18


def bar(choice: Choice) -> dict[str, Any]:
    """A horizontal colour bar below the map, without ticks."""
    return {"orientation": "h", "thickness": 8, "len": 1, "y": 0, "yref": "container", "yanchor": "bottom", "ypad": 2,
            "outlinewidth": 0, "x": 0.5, "xpad": 0, "tickfont": {"size": 11, "color": choice.theme.soft}}  # fmt: skip


def _bar(choice: Choice, scale: Scale) -> dict[str, Any]:
    ticks = {"tickmode": "array", "tickvals": list(scale.ticks), "ticktext": list(scale.texts)}
    return {**bar(choice), **ticks}

"""A matrix of numbers between names as a heat map: correlations, shares in common."""

from __future__ import annotations

import itertools
import math

import numpy as np
import plotly.graph_objects as go

from engine.report import phrasing
from engine.report.charts.panel import Choice, blank, plain, wrapped


def matrix_figure(
    values: np.ndarray, names: list[str], choice: Choice, low: float, high: float, texts: list[list[str]] | None = None
) -> go.Figure:
    """A square matrix with its numbers written in the cells."""
    look = choice.theme
    shown = texts or [["1" if math.isnan(value) else _r(value) for value in row] for row in values]
    figure = blank(choice, 130 + 52 * len(names))
    places = list(range(len(names)))
    scale = look.diverging if low < 0 else look.sequential
    hover = [
        [f"{plain(first)} and {plain(second)}: {shown[i][j]}" for j, second in enumerate(names)]
        for i, first in enumerate(names)
    ]
    figure.add_trace(go.Heatmap(
        z=values, x=places, y=places, zmin=low, zmax=high, colorscale=[list(stop) for stop in scale], xgap=2, ygap=2,
        showscale=False, text=hover, hovertemplate="%{text}<extra></extra>", hoverongaps=False,
    ))  # fmt: skip
    for row, column in itertools.product(places, repeat=2):
        strong = abs(values[row][column]) > (0.6 if low < 0 else 0.72)  # where its colour is too dark for ink
        colour = ("#0b0f14" if choice.dark else "#ffffff") if strong else look.ink
        figure.add_annotation(x=column, y=row, text=shown[row][column], showarrow=False,
                              font={"size": 13, "color": colour})  # fmt: skip
    figure.update_yaxes(tickvals=places, ticktext=[wrapped(name, 12) for name in names], autorange="reversed")
    figure.update_yaxes(showgrid=False, showline=False)
    figure.update_xaxes(
        tickvals=places,
        ticktext=[plain(name) for name in names],
        showline=False,
        autotickangles=[0, -45],
        tickfont={"size": 11},
    )
    return figure


def _r(value: float) -> str:
    return f"{value:.2f}".replace("-", phrasing.MINUS)

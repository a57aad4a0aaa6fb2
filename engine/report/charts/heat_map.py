"""Heat maps: units as a grid of cells that can be picked, and square matrices between names."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from engine.core.errors import RequestError, unknown
from engine.core.text import CONTROL
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts.kinds import HOVER, ON_STRONG, add_points, entry, heading, silent
from engine.report.charts.panel import Choice, blank, plain, wrapped
from engine.report.palette import Theme
from engine.store.runs import Run

BELOW = 92
"""Pixels below a grid of heads: its ticks, the name of its axis and the colour bar."""
Colours = Sequence[tuple[float, str]]


@dataclass(frozen=True)
class Scale:
    """Colours of a map: from `low` to `high`, around zero or from one end, with ticks in words."""

    low: float
    high: float
    ticks: Sequence[float]
    texts: Sequence[str]
    diverges: bool = False
    unsupported: bool = False
    """Whether the order of the values may be chance: in grey."""

    def colours(self, look: Theme) -> Colours:
        if self.unsupported:
            return look.unsupported
        return look.diverging if self.diverges else look.sequential


def cells(figure: go.Figure, z: Any, colours: Colours, **more: Any) -> None:
    """Coloured cells. `z`: [rows, columns], NaN left blank; `more`: anything else of a heat map
    trace."""
    how = {"xgap": 2, "ygap": 2, "hoverongaps": False, **more}
    figure.add_heatmap(z=z, colorscale=[list(stop) for stop in colours], **how)


def veil(figure: go.Figure, z: np.ndarray, colour: str, gap: int = 2) -> None:
    """One colour over the cells whose `z` [rows, columns] is not NaN; a heat map, so that it scales
    with the screen."""
    places = {"x": list(range(z.shape[1])), "y": list(range(z.shape[0]))}
    cells(
        figure, z, ((0, colour), (1, colour)), **places, showscale=False, xgap=gap, hoverinfo="skip"
    )


def bar_below(choice: Choice, ticks: Sequence[float] = (), texts: Sequence[str] = ()) -> Values:
    """A colour bar below a map, its ticks in words where some are given."""
    bar = {
        "orientation": "h",
        "thickness": 8,
        "len": 1,
        "x": 0.5,
        "xpad": 0,
        "y": 0,
        "yref": "container",
        "yanchor": "bottom",
        "ypad": 2,
        "outlinewidth": 0,
        "tickfont": {"size": 11, "color": choice.theme.soft},
    }
    if not len(ticks):
        return {**bar, "nticks": 4}
    return {**bar, "tickmode": "array", "tickvals": list(ticks), "ticktext": list(texts)}


def bar_above(
    choice: Choice, ticks: Sequence[float], texts: Sequence[str], length: float = 1.0
) -> Values:
    """A colour bar above a map whose ends are named in words; `length`: share of the map's width,
    from the left."""
    return {
        "orientation": "h",
        "thickness": 8,
        "y": 1,
        "yanchor": "bottom",
        "len": length,
        "x": length / 2,
        "xpad": 0,
        "outlinewidth": 0,
        "tickvals": list(ticks),
        "ticktext": list(texts),
        "tickfont": {"size": 11, "color": choice.theme.soft},
    }


def head_axes(figure: go.Figure, layers: int, heads: int) -> None:
    """Heads from left to right, layer 0 on top; every fourth is numbered where there are many."""
    columns, rows = (list(range(0, many, 1 if many <= 16 else 4)) for many in (heads, layers))
    bare = {"showline": False, "fixedrange": True}
    figure.update_xaxes(tickvals=columns, range=[-0.5, heads - 0.5], **bare)
    figure.update_yaxes(tickvals=rows, range=[layers - 0.5, -0.5], showgrid=False, **bare)


def head_grid(
    run: Run,
    choice: Choice,
    values: np.ndarray,
    scale: Scale,
    hovers: Sequence[str],
    title: str = "",
) -> go.Figure:
    """A figure of the flat `values` [units], NaN left blank; invisible points carry the hovers and
    the unit."""
    layers, heads = shape_of(run)
    figure = blank(choice, cell_height(layers) * layers + BELOW + 46, "head", "layer")
    z, colours = np.asarray(values, dtype=float).reshape(layers, heads), scale.colours(choice.theme)
    places = {"x": list(range(heads)), "y": list(range(layers))}
    bounds = {"zmin": scale.low, "zmax": scale.high}
    bar = bar_below(choice, scale.ticks, scale.texts)
    cells(figure, z, colours, **places, **bounds, hoverinfo="skip", colorbar=bar)
    pickable(figure, choice, np.arange(layers * heads), heads, hovers)
    head_axes(figure, layers, heads)
    figure.update_layout(margin={"b": BELOW, "t": 40 if title else 28}, legend={"y": 1.0, "x": 0})
    if title:
        heading(figure, title, yshift=4)
        figure.update_layout(legend={"x": 1, "xanchor": "right"})
    return figure


def pickable(
    figure: go.Figure, choice: Choice, units: np.ndarray, heads: int, hovers: Sequence[str]
) -> None:
    """Invisible points over the cells of `units` (n,), of so many heads in a layer: they carry
    hovers and the unit, and unlike cells they can be picked."""
    marker = {"symbol": "square", "size": 24, "color": choice.theme.ink, "opacity": 0}
    look = {"selected": {"marker": {"opacity": 0.25}}, "unselected": {"marker": {"opacity": 0}}}
    look |= {"name": "heads", "showlegend": False, "customdata": units[:, None]}
    add_points(figure, units % heads, units // heads, hovers, marker, **look)


def mark(
    figure: go.Figure,
    run: Run,
    choice: Choice,
    units: Sequence[int],
    symbol: str,
    name: str,
) -> None:
    """Marks on some heads, with a name in the legend; none where there are none."""
    if not len(units):
        return
    _, heads = shape_of(run)
    size = int(max(4, min(11, 170 / heads)))
    line = {"width": 2 if size > 6 else 1, "color": choice.theme.ink}
    marker = {"symbol": symbol, "size": size, "color": choice.theme.ink, "line": line}
    x, y = [unit % heads for unit in units], [unit // heads for unit in units]
    silent(figure, x, y, mode="markers", marker=marker)
    entry(figure, name, mode="markers", marker=marker, hoverinfo=None)


def prove_head(run: Run, unit: int) -> None:
    """RequestError where the model has no such head."""
    total = run.n_units
    if not 0 <= unit < total:
        raise RequestError(unknown("head", unit, [f"0 to {total - 1}"]))


def shape_of(run: Run) -> tuple[int, int]:
    """(layers, heads of a layer) of the run's model."""
    return int(run.model["n_layers"]), int(run.model["n_heads"])


def cell_height(layers: int) -> int:
    """Height of a cell in pixels."""
    heights = {6: 40, 8: 34, 12: 28, 24: 24}
    return next((height for most, height in heights.items() if layers <= most), 18)


def table_map(
    choice: Choice,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    cells_said: Sequence[Sequence[tuple[str, str]]],
    bounds: tuple[float, float] = (0, 1),
    strong: float = 0.72,
) -> go.Figure:
    """A coloured table. `values`: [rows, columns]; `cells_said`: what is written in each cell, and
    what it says when it is pointed at; `strong`: from where on a colour is too dark for ink."""
    shape = down, across = [list(range(len(names))) for names in (rows, columns)]
    lines = max((name.count("<br>") + 1 for name in rows), default=1)
    figure = blank(choice, 110 + max(48, 16 * lines + 8) * len(rows))
    colours = choice.theme.diverging if bounds[0] < 0 else choice.theme.sequential
    look = {"x": across, "y": down, "zmin": bounds[0], "zmax": bounds[1], "showscale": False}
    hovers = [[hover for _, hover in row] for row in cells_said]
    cells(figure, values, colours, **look, text=hovers, hovertemplate=HOVER)
    inks = choice.theme.ink, ON_STRONG[choice.dark]  # on a weak colour, on a strong one
    figure.layout.annotations = [
        {
            "x": x,
            "y": y,
            "text": cells_said[y][x][0],
            "showarrow": False,
            "font": {"size": 12, "color": inks[int(abs(values[y][x]) > strong)]},
        }
        for y, x in itertools.product(*shape)
    ]
    axis = {"showline": False, "showgrid": False}
    figure.update_yaxes(tickvals=down, ticktext=list(rows), autorange="reversed", **axis)
    figure.update_xaxes(tickvals=across, ticktext=list(columns), side="top", **axis)
    figure.update_xaxes(autotickangles=[0, -45], tickfont={"size": 11}, ticklabeloverflow="allow")
    return figure


def matrix_figure(
    values: np.ndarray,
    names: list[str],
    choice: Choice,
    low: float,
    high: float,
    texts: list[list[str]] | None = None,
) -> go.Figure:
    """A square matrix [names, names] with its numbers, or `texts`, written in the cells."""
    shown = texts or [
        ["1" if math.isnan(value) else phrasing.correlation(value) for value in row]
        for row in values
    ]
    whom = list(map(plain, names))
    said = [
        [(text, f"{first} and {second}: {text}") for second, text in zip(whom, row, strict=True)]
        for first, row in zip(whom, shown, strict=True)
    ]
    labels, strong = [wrapped(name, 12) for name in names], 0.6 if low < 0 else 0.72
    return table_map(choice, values, labels, labels, said, (low, high), strong)


# A map between the tokens of a text, such as the attention of one head, with the tokens named at
# its sides.


SPECIAL = ("[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]", "<s>", "</s>", "<pad>", "<mask>", "<unk>")
"""Tokens that are no words of a text: shown also where the text is hidden."""
MANY = 40
"""Tokens from which on only some are named at the axes; the hover names all."""
LONGEST = 14
_STEERING = re.compile(rf"{CONTROL.pattern}|[\t\n]")


def token_labels(tokens: Sequence[str], shown: bool) -> list[str]:
    """Tokens as chart labels: escaped, without control characters; their places where the text is
    hidden."""
    found = []
    for place, token in enumerate(tokens):
        text = _STEERING.sub("\ufffd", token.removeprefix("\u0120"))  # RoBERTa's mark of a space
        text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\u2026"
        found.append(plain(text) if shown or token in SPECIAL else str(place))
    return found


def token_map(
    choice: Choice, values: np.ndarray, labels: list[str], title: str, scale: Scale
) -> go.Figure:
    """One map [tokens, tokens]: row, the token that attends; column, the one it attends to."""
    n, gap = len(labels), 1 if len(labels) <= MANY else 0
    figure = blank(choice, 150 + max(14, min(26, 620 // n)) * n, "to")
    cells(
        figure,
        values,
        scale.colours(choice.theme),
        x=list(range(n)),
        y=list(range(n)),
        zmin=scale.low,
        zmax=scale.high,
        xgap=gap,
        ygap=gap,
        hoverongaps=None,
        customdata=[[f"{row} \u2192 {column}" for column in labels] for row in labels],
        hovertemplate=f"%{{customdata}}<br>%{{z:.4f}}<extra>{title.lower()}</extra>",
        colorbar={**bar_below(choice, scale.ticks, scale.texts), "tickmode": None},
    )
    named = range(0, n, max(1, math.ceil(n / MANY)))
    ticks = {
        "tickvals": list(named),
        "ticktext": [labels[place] for place in named],
        "showline": False,
        "showgrid": False,
        "tickfont": {"size": 11},
    }
    figure.update_xaxes(**ticks, tickangle=-60, side="top", range=[-0.5, n - 0.5], title_text="")
    figure.update_yaxes(**ticks, range=[n - 0.5, -0.5])
    where = {"x": 0, "xanchor": "left", "y": 0.995, "yanchor": "top"}
    figure.update_layout(
        margin={"t": 34, "b": 40}, title={"text": f"<b>{title}</b>", "font": {"size": 14}, **where}
    )
    return figure


def map_scale(low: float, high: float) -> Scale:
    """Colours from one end, or around zero where `low` is below it; its ends are written in
    numbers."""
    inset, diverges = 0.06 * (high - low), low < 0
    ticks, texts = [low + inset, high - inset], [phrasing.number(low), phrasing.number(high)]
    if diverges:
        ticks, texts = [ticks[0], 0, ticks[1]], [texts[0], "0", f"+{texts[1]}"]
    return Scale(low, high, ticks, texts, diverges)

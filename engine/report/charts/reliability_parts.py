"""How repeatability is drawn and said: dots of ICC with intervals, one row per name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.report import phrasing
from engine.report.charts.panel import Choice, blank, plain, wrapped
from engine.report.palette import series_colours
from engine.stats.reliability import Repeats

GOOD = 0.8
"""From here on one seed counts as reliable (Koo & Li 2016: good is .75 to .9)."""
MANY = 1000
"""More seeds than this nobody draws."""
ICC_SAID = "ICC(C,1): 1 = every seed gives the same scores, 0 = seeds share nothing (McGraw & Wong 1996)."


def row_of(name: str, over: str, found: Repeats) -> dict[str, Any]:
    return {
        "name": name,
        "over": over,
        "ICC": found.icc,
        "low": found.low,
        "high": found.high,
        "ICC of the mean": found.icc_mean,
        "mean low": found.mean_low,
        "mean high": found.mean_high,
        "ICC of the order": found.icc_ranks,
        "seeds needed": math.nan if found.needed is None else found.needed,
        "overlap": found.overlap.share,
        "by chance": found.overlap.expected,
        "chance low": found.overlap.low,
        "chance high": found.overlap.high,
        "heads": found.units,
        "seeds": found.seeds,
    }


def shown(table: pd.DataFrame) -> pd.DataFrame:
    return table.rename(columns={"seeds needed": f"seeds needed for {GOOD:g}"})


def icc_figure(table: pd.DataFrame, choice: Choice) -> go.Figure:
    """Dots with intervals: one row per name, one colour and symbol per `over`."""
    names = list(dict.fromkeys(table["name"]))
    several = table["over"].nunique()
    figure = blank(choice, 110 + max(34, 13 * several + 12) * len(names), "ICC(C,1) of one seed")
    for place, (over, part) in enumerate(table.groupby("over", sort=False)):
        shift = [_shift(table, name, over, several) for name in part["name"]]
        x, low, high = part["ICC"], part["low"], part["high"]
        error = {
            "type": "data",
            "symmetric": False,
            "array": (high - x).clip(lower=0),
            "arrayminus": (x - low).clip(lower=0),
            "width": 0,
            "thickness": 1.5,
            "color": marker(choice, place)["color"],
        }
        texts = [
            f"<b>{plain(row.name)}</b>, {plain(over)}<br>ICC {phrasing.correlation(row.ICC)} ({phrasing.correlation(row.low)} to {phrasing.correlation(row.high)})"
            for row in part.drop(columns="name").assign(name=part["name"]).itertuples(index=False)
        ]
        figure.add_trace(
            go.Scatter(
                x=x,
                y=[names.index(name) + by for name, by in zip(part["name"], shift, strict=True)],
                mode="markers",
                name=plain(over),
                error_x=error,
                marker=marker(choice, place),
                text=texts,
                hovertemplate="%{text}<extra></extra>",
            )
        )
    names_on_y(figure, names)
    for at, dash in ((0.0, "solid"), (GOOD, "dot")):
        figure.add_vline(x=at, line={"color": choice.theme.soft, "dash": dash, "width": 1})
    figure.update_xaxes(range=[min(-0.1, float(np.nanmin(table["low"])) - 0.02), 1.02])
    return figure


def _shift(table: pd.DataFrame, name: str, over: str, several: int) -> float:
    """Where a dot stands within its name's row, so that the dots of a name lie around its label."""
    mine = table.loc[table["name"] == name, "over"].tolist()
    return (mine.index(over) - (len(mine) - 1) / 2) * 0.7 / max(several, 1)


def names_on_y(figure: go.Figure, names: list[str]) -> None:
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=[wrapped(name, 18) for name in names],
        showgrid=False,
        range=[len(names) - 0.4, -0.6],
    )


def marker(choice: Choice, place: int) -> dict[str, Any]:
    symbols = ("circle", "diamond", "square", "triangle-up", "x", "star")
    return {
        "color": series_colours(choice.dark)[place % 5],
        "symbol": symbols[place % len(symbols)],
        "size": 9,
    }


def line_at(figure: go.Figure, choice: Choice, at: float) -> None:
    figure.add_hline(y=at, line={"color": choice.theme.soft, "dash": "dot", "width": 1.5})

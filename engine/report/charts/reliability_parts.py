"""How repeatability is drawn and said: dots of ICC with intervals, one row per name."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts.kinds import dots, looks_of
from engine.report.charts.panel import Choice, plain, wrapped
from engine.stats.reliability import Repeats, SetOverlap, repeats_of

GOOD = 0.8
"""From here on one seed counts as reliable (Koo & Li 2016: good is .75 to .9)."""
MANY = 1000
"""Largest number of needed seeds that is stated; above it a sentence says "more than"."""
ICC_SAID = (
    "ICC(C,1): 1 means every seed gives the same scores, 0 means seeds have nothing in common "
    "(McGraw & Wong 1996)."
)


def row_of(name: str, over: str, found: Repeats) -> Values:
    """One row of the table that `icc_figure` draws: what was repeated, over which heads, how well
    it agreed."""
    overlap = found.overlap
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
        "overlap": overlap.share,
        "by chance": overlap.expected,
        "chance low": overlap.low,
        "chance high": overlap.high,
        "heads": found.units,
        "seeds": found.seeds,
    }


def repeated(tables: Iterable[tuple[str, str, pd.DataFrame]]) -> pd.DataFrame:
    """A row each of what agreed at all: (what was repeated, over which heads, scores by seed)."""
    rows = [row_of(name, over, repeats_of(table)) for name, over, table in tables]
    return pd.DataFrame([row for row in rows if not math.isnan(row["ICC"])])


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """The table of the chart under titles and with values for people."""
    return table.rename(columns={"seeds needed": f"seeds needed for {GOOD:g}"})


def icc_said(row: Values) -> str:
    """E.g. "ICC 0.82 (0.71 to 0.90)"."""
    icc, low, high = (phrasing.correlation(row[name]) for name in ("ICC", "low", "high"))
    return f"ICC {icc} ({low} to {high})"


def reliable_said(table: pd.DataFrame, one: str, many: str) -> str:
    """For how many rows one seed is reliable, judged by the lower end of the interval; and the row
    where that is lowest."""
    low = table["low"].fillna(-1)
    worst = table.loc[low.idxmin()]
    return (
        f"One seed is clearly reliable (ICC above {GOOD:g}) for {int((low >= GOOD).sum())} of"
        f" {phrasing.count(len(table), one, many)}; least sure: {worst['name']}, {icc_said(worst)}."
    )


def overlap_row(found: SetOverlap) -> Values:
    """What sets have in common beside what chance gives, as cells of a table."""
    ends = {"by chance": found.expected, "chance low": found.low, "chance high": found.high}
    return {"shared": found.share, **ends, "more than chance": not found.chance}


def chance_said(expected: float, high: float, more: bool) -> str:
    """What random sets of the same size share, and whether a share is more; shares from 0 to 1."""
    known = [phrasing.percent(round(float(share), 3)) for share in (expected, high)]
    return (
        f"chance gives {known[0]} (up to {known[1]}): {'more' if more else 'no more'} than chance"
    )


def icc_figure(table: pd.DataFrame, choice: Choice) -> go.Figure:
    """Dots with intervals: one row per name, one colour and symbol per `over`; the dots of a name
    around its label."""
    looks = looks_of(choice, list(dict.fromkeys(table["over"])))
    drawn = table.assign(
        hover=[
            f"<b>{plain(row['name'])}</b>, {plain(row['over'])}<br>{icc_said(row)}"
            for row in table.to_dict("records")
        ],
        ICC_low=table[["ICC", "low"]].min(axis=1),
        ICC_high=table[["ICC", "high"]].max(axis=1),
    )
    rows = {name: wrapped(name, 18) for name in dict.fromkeys(table["name"])}
    title = "ICC(C,1) of one seed"
    figure = dots(choice, drawn, "ICC", rows, looks, title, row="name", by="over", named=plain)
    line_of = {"color": choice.theme.soft, "dash": "dot", "width": 1}
    figure.add_vline(x=GOOD, line=line_of)
    figure.update_xaxes(range=[min(-0.1, float(np.nanmin(table["low"])) - 0.02), 1.02])
    return figure

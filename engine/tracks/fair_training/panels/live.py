"""A training that runs now: its curve so far, the newest training in front of those before it."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts.columns import Column, readable, titled
from engine.report.charts.marks import entry, heading
from engine.report.charts.panel import Choice, Panel, nothing, plain
from engine.report.palette import series_styles
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.training_lines import (
    SMOOTH,
    line_look,
    smooth,
    updates_figure,
)

QUESTION = "How is the training going?"
BEFORE = 6
"""Earlier trainings drawn in the background at most."""
HEIGHT = 290
COLUMNS = {
    "Accuracy": (("accuracy", "validation images", 0),),
    "Gap": (("gap", "measured, validation", 1), ("surrogate_gap", "surrogate, training", 0)),
    "Loss": (("loss", "training images", 0),),
}
SAID = (
    Column("shard", "training", words.work_name),
    Column("phase", "phase", lambda phase: own.phase_name(str(phase))),
    *titled(step="weight updates", loss="loss", accuracy="accuracy (validation)"),
    *titled(gap="measured gap (validation)", surrogate_gap="surrogate gap (training)"),
    *titled(examples="examples", seconds="seconds"),
)


def live(points: pd.DataFrame, choice: Choice) -> Panel:
    """`points`: rows as the job wrote them, with the column shard. The newest shard is the last
    that wrote."""
    if points.empty:
        return nothing("fair_live", QUESTION, "No training has said anything yet.")
    order = list(dict.fromkeys(points["shard"].iloc[::-1]))
    parts = tuple(_column(points, order, choice, title) for title in COLUMNS)
    note = (
        "Grey: trainings of this job that are done. Dotted lines and the loss are running means"
        f" over {SMOOTH} updates. Points are looks at validation images and have no interval; the"
        " results on test images come when all is finished."
    )
    last = pd.DataFrame([_last(points, shard) for shard in order])
    return Panel(
        "fair_live", QUESTION, _answer(points, order), None, readable(last, SAID), note, parts, True
    )


def _column(points: pd.DataFrame, order: list[str], choice: Choice, title: str) -> go.Figure:
    figure, styles = updates_figure(choice, HEIGHT, title, 5, 1.12), series_styles(choice.dark)
    for shard in order[1 : 1 + BEFORE][::-1]:
        column, name = COLUMNS[title][0][0], plain(words.work_name(shard))
        rows = _of(points, shard, column)
        look = {
            "mode": "lines",
            "line": {"color": choice.theme.soft, "width": 1},
            "opacity": 0.45,
            "name": name,
        }
        said = f"{name}<br>%{{y:.3f}}<extra></extra>"
        figure.add_scatter(
            x=rows["step"], y=smooth(rows, column), **look, showlegend=False, hovertemplate=said
        )
    for column, name, which in COLUMNS[title]:
        rows = _of(points, order[0], column)
        look = line_look(column, styles[which], 2.4, 8, "solid" if title == "Loss" else "dot")
        said = f"{name}<br>%{{x}} updates: %{{y:.3f}}<extra></extra>"
        figure.add_scatter(
            x=rows["step"], y=smooth(rows, column), showlegend=False, hovertemplate=said, **look
        )
        entry(figure, name, **look)
    heading(figure, title)
    return figure


def _of(points: pd.DataFrame, shard: str, column: str) -> pd.DataFrame:
    """What a shard said of a column, by step; empty where it never did."""
    if column not in points:
        return pd.DataFrame({"step": [], column: []})
    rows = points[(points["shard"] == shard) & points[column].notna()]
    return rows.sort_values("step")


def _answer(points: pd.DataFrame, order: list[str]) -> str:
    row = _last(points, order[0])
    text = (
        f"{phrasing.sentence(words.work_name(order[0]))}:"
        f" {own.phase_name(str(row.get('phase') or ''))}, "
    )
    text = f"{text}{row['step']:,.0f} weight updates"
    looks = [
        f"{name} {phrasing.number(row[column])}"
        for column, name in (
            ("accuracy", "accuracy"),
            ("gap", "measured gap"),
            ("surrogate_gap", "surrogate gap"),
        )
        if math.isfinite(row.get(column, math.nan))
    ]
    return f"{text}; {', '.join(looks)}." if looks else f"{text}."


def _last(points: pd.DataFrame, shard: str) -> dict[str, Any]:
    """The last known value of every column of a shard."""
    rows = points[points["shard"] == shard].sort_values("step")
    return rows.ffill().iloc[-1].to_dict()

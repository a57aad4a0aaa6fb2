"""A training that runs now: what it said so far, the newest training in front of those before it."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain
from engine.report.palette import series_styles
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import entry, heading

QUESTION = "How is the training going?"
BEFORE = 6
"""Earlier trainings drawn in the background at most."""
HEIGHT = 290
SMOOTH = 15
"""Updates over which what is known of every batch is averaged."""
COLUMNS = {
    "Accuracy": (("accuracy", "validation images", 0),),
    "Gap": (("gap", "measured, validation", 1), ("surrogate_gap", "surrogate, training", 0)),
    "Loss": (("loss", "training images", 0),),
}


def live(points: pd.DataFrame, choice: Choice) -> Panel:
    """`points`: rows as the job wrote them, with the column shard. The newest shard is the last that wrote."""
    if points.empty:
        return nothing("fair_live", QUESTION, "No training has said anything yet.")
    order = list(dict.fromkeys(points["shard"].iloc[::-1]))
    parts = tuple(_column(points, order, choice, title) for title in COLUMNS)
    note = (
        f"Grey: trainings of this job that are done. Dotted lines and the loss are running means over {SMOOTH} "
        "updates. Points are looks at validation images and have no interval; the results on test images come when all "
        "is finished."
    )
    return Panel("fair_live", QUESTION, _answer(points, order), None, _readable(points, order), note, parts, True)


def _column(points: pd.DataFrame, order: list[str], choice: Choice, title: str) -> go.Figure:
    figure, styles = blank(choice, HEIGHT, "weight updates"), series_styles(choice.dark)
    for shard in order[1 : 1 + BEFORE][::-1]:
        column = COLUMNS[title][0][0]
        rows = _smooth(_of(points, shard, column), column)
        figure.add_trace(go.Scatter(
            x=rows["step"], y=rows[column], mode="lines", showlegend=False, opacity=0.45,
            line={"color": choice.theme.soft, "width": 1}, name=plain(words.work_name(shard)),
            hovertemplate=f"{plain(words.work_name(shard))}<br>%{{y:.3f}}<extra></extra>",
        ))  # fmt: skip
    for column, name, which in COLUMNS[title]:
        rows, style = _smooth(_of(points, order[0], column), column), styles[which]
        dots = column in ("accuracy", "gap")
        line = {"color": style.colour, "width": 2.4, "dash": "solid" if dots or title == "Loss" else "dot"}
        marker = {"symbol": style.symbol, "size": 8, "color": style.colour}
        mode = "lines+markers" if dots else "lines"
        figure.add_trace(go.Scatter(
            x=rows["step"], y=rows[column], mode=mode, showlegend=False, line=line, marker=marker,
            hovertemplate=f"{name}<br>%{{x}} updates: %{{y:.3f}}<extra></extra>",
        ))  # fmt: skip
        entry(figure, name, mode=mode, line=line, marker=marker)
    heading(figure, title)
    figure.update_xaxes(nticks=5, tickangle=0, rangemode="tozero")
    figure.update_yaxes(nticks=5, rangemode="tozero" if title == "Gap" else "normal")
    figure.update_layout(legend={"y": 1.12, "font": {"size": 12}}, margin={"t": 30})
    return figure


def _smooth(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Running means of what is known of every batch, and noisy; looks at validation images as they are."""
    if column not in ("loss", "surrogate_gap"):
        return rows
    return rows.assign(**{column: rows[column].rolling(SMOOTH, min_periods=1, center=True).mean()})


def _of(points: pd.DataFrame, shard: str, column: str) -> pd.DataFrame:
    """What a shard said of a column, by step; empty where it never did."""
    if column not in points:
        return pd.DataFrame({"step": [], column: []})
    rows = points[(points["shard"] == shard) & points[column].notna()]
    return rows.sort_values("step")


def _answer(points: pd.DataFrame, order: list[str]) -> str:
    row = _last(points, order[0])
    text = f"{phrasing.sentence(words.work_name(order[0]))}: {own.phase_name(str(row.get('phase') or ''))}, "
    text = f"{text}{row['step']:,.0f} weight updates"
    looks = [f"{name} {phrasing.number(row[column])}" for column, name in
             (("accuracy", "accuracy"), ("gap", "measured gap"), ("surrogate_gap", "surrogate gap"))
             if math.isfinite(row.get(column, math.nan))]  # fmt: skip
    return f"{text}; {', '.join(looks)}." if looks else f"{text}."


def _last(points: pd.DataFrame, shard: str) -> dict[str, Any]:
    """The last known value of every column of a shard."""
    rows = points[points["shard"] == shard].sort_values("step")
    return rows.ffill().iloc[-1].to_dict()


def _readable(points: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    """The last values of every training, the newest first."""
    names = {"shard": "training", "phase": "phase", "step": "weight updates", "loss": "loss",
             "accuracy": "accuracy (validation)", "gap": "measured gap (validation)",
             "surrogate_gap": "surrogate gap (training)", "examples": "examples", "seconds": "seconds"}  # fmt: skip
    rows = pd.DataFrame([_last(points, shard) for shard in order])
    shown = rows.assign(shard=rows["shard"].map(words.work_name))
    if "phase" in shown:
        shown["phase"] = shown["phase"].map(lambda phase: own.phase_name(str(phase)))
    return shown[[name for name in names if name in shown]].rename(columns=names)

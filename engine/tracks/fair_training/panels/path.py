"""The straight way from BiFP to each of its ablations: is there a ridge in between, and how high
(Fig. 8)."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.columns import Column, readable, titled
from engine.report.charts.marks import dot, heading
from engine.report.charts.panel import Choice, Panel, blank, nothing
from engine.report.palette import series_styles
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.fair_training.panels.lookup import short
from engine.tracks.fair_training.panels.surface import ABSENT

QUESTION = "Is there a ridge between BiFP and the models without its parts?"
START = "bifp-str"
LOW = 0.01
"""Height, in nats, below which no ridge is named."""
COLUMNS = (
    Column("other", "other model", words.method_name),
    *titled(t="share of the way", loss="loss", accuracy="accuracy", gap="accuracy gap"),
    *titled(loss_without_recalibration="loss, batch statistics as they were"),
)


def has_path(run: Run, choice: Choice) -> bool:
    return run.has("path") and len(lookup.frame(run, "path")) > 0


def path(run: Run, choice: Choice) -> Panel:
    """Loss and accuracy gap along straight lines of weights; 0 is BiFP, 1 the other model."""
    if not has_path(run, choice):
        return nothing("fair_path", QUESTION, ABSENT)
    table = lookup.frame(run, "path")
    others = track_of(run).order(table["other"].unique())
    parts = (
        _column(run, choice, table, others, "loss", "Loss"),
        _column(run, choice, table, others, "gap", "Gap"),
    )
    note = (
        "One seed, one set of images. Height of a ridge: how far the loss rises above the straight"
        f" line between its two ends; below {LOW:g} none is named. Batch statistics are worked out"
        " again at every point; without that, which the thin broken lines show, ridges are partly"
        " made by them. A low ridge says that the two are near each other, not that either is"
        " fair."
    )
    answer, more = _answer(table, others)
    return Panel(
        "fair_path", QUESTION, answer, None, readable(table, COLUMNS), note, parts, True, more=more
    )


def barrier(rows: pd.DataFrame) -> float:
    """Largest rise of the loss above the straight line between its ends; never below 0."""
    rows = rows.sort_values("t")
    t, loss = rows["t"].to_numpy(dtype=float), rows["loss"].to_numpy(dtype=float)
    line = loss[0] + (loss[-1] - loss[0]) * (t - t[0]) / max(t[-1] - t[0], 1e-12)
    return float(max(0.0, np.max(loss - line)))


def _column(
    run: Run, choice: Choice, table: pd.DataFrame, others: list[str], column: str, title: str
) -> go.Figure:
    figure = blank(choice, 360, f"{short(START)} (0) to the other (1)", title.lower())
    styles = series_styles(
        choice.dark
    )  # three lines of one family, which in its own colours are all alike
    for other, style in zip(others, itertools.cycle(styles), strict=False):
        rows, name = table[table["other"] == other].sort_values("t"), short(other)
        marker = dot(style, 6, 1.4)
        line = {"color": style.colour, "width": 2.2, "dash": style.dash}
        said = f"{name}, %{{x:.2f}} of the way<br>{title.lower()} %{{y:.3f}}<extra></extra>"
        look = {
            "mode": "lines+markers",
            "line": line,
            "marker": marker,
            "name": name,
            "hovertemplate": said,
        }
        figure.add_scatter(x=rows["t"], y=rows[column], **look)
        if column == "loss" and "loss_without_recalibration" in rows:
            line = {"color": style.colour, "width": 1, "dash": "dot"}
            said = "batch statistics as they were<br>loss %{y:.3f}<extra></extra>"
            figure.add_scatter(
                x=rows["t"],
                y=rows["loss_without_recalibration"],
                mode="lines",
                line=line,
                showlegend=False,
                opacity=0.6,
                hovertemplate=said,
            )
    heading(figure, "Loss" if column == "loss" else "Accuracy gap")
    figure.update_xaxes(tickvals=[0, 0.5, 1], showgrid=True)
    figure.update_yaxes(nticks=6)
    figure.update_layout(legend={"y": 1.09}, margin={"t": 30})
    return figure


def _answer(table: pd.DataFrame, others: list[str]) -> tuple[str, str]:
    """To which models a ridge was found; then the height of each and the loss at its end."""
    parts, ridges = [], []
    for other in others:
        rows = table[table["other"] == other]
        height, name = barrier(rows), words.method_name(other)
        ridge = f"a ridge of {phrasing.number(height)}" if height >= LOW else "no ridge is found"
        ridges += [name] if height >= LOW else []
        end = float(rows.sort_values("t")["loss"].iat[-1])
        parts.append(f"to {name} {ridge} (loss there {phrasing.number(end)})")
    start = phrasing.number(float(table[table["t"] == table["t"].min()]["loss"].mean()))
    found = (
        f"a ridge lies on the way to {phrasing.listing(ridges)}" if ridges else "no ridge is found"
    )
    of = phrasing.count(len(others), "straight way")
    return (
        f"On the {of} from {words.method_name(START)}, {found}.",
        f"From a loss of {start}: {'; '.join(parts)}.",
    )

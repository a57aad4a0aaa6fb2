"""The loss around BiFP: on the plane through it and two ablations, and where each of them lies
(Fig. 8)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import lines, looks_of
from engine.report.charts.marks import silent
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain
from engine.report.schema import hovers, readable
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.fair_training.panels.lookup import short

QUESTION = "What does the loss look like between BiFP and what it would be without its parts?"
ABSENT = (
    "This audit has no loss surface. Ask for it under “Trade-off over λ, and loss surface” on the "
    "page “New audit”, or with --surface. It needs BiFP-str and its ablations."
)
SHOWN = {"loss": "loss", "gap": "accuracy gap", "accuracy": "accuracy"}
COLUMNS = "x y loss accuracy gap"


def has_surface(run: Run, choice: Choice) -> bool:
    return (
        run.has("surface") and run.has("surface_points") and len(lookup.frame(run, "surface")) > 0
    )


def surface(run: Run, choice: Choice, show: str = "loss") -> Panel:
    """Contours of loss, accuracy or gap; the three models as points."""
    if not has_surface(run, choice):
        return nothing("fair_surface", QUESTION, ABSENT)
    table, points = lookup.frame(run, "surface"), lookup.frame(run, "surface_points")
    table = table[table["method_b"] == table["method_b"].iat[0]]
    note = (
        "One seed, one set of images, one plane of very many. Only the models on it were trained, "
        "not the points between. The mask is BiFP's only at BiFP; between models, weights that "
        "one of them lacks come back in part. Batch statistics are computed again at every point."
    )
    (answer, more), figure = _answer(table, points), _figure(choice, table, points, show)
    return Panel(
        "fair_surface", QUESTION, answer, figure, readable(table, COLUMNS), note, more=more
    )


def _figure(choice: Choice, table: pd.DataFrame, points: pd.DataFrame, show: str) -> go.Figure:
    grid = table.pivot(index="y", columns="x", values=show).sort_index().sort_index(axis=1)
    look, (x, y) = choice.theme, _ends(points)
    figure = blank(
        choice, 380, f"weights, towards {plain(short(x))}", f"weights, towards {plain(short(y))}"
    )
    bar = {
        "title": {"text": SHOWN[show], "font": {"size": 12, "color": look.soft}},
        "thickness": 10,
    }
    figure.add_contour(
        z=grid.to_numpy(),
        x=grid.columns.tolist(),
        y=grid.index.tolist(),
        ncontours=16,
        colorscale=[list(stop) for stop in look.sequential],
        line={"width": 0.6, "color": look.soft},
        colorbar={**bar, "outlinewidth": 0, "tickfont": {"size": 11, "color": look.soft}},
        hovertemplate=f"{SHOWN[show]} %{{z:.3f}}<extra></extra>",
    )
    marker = {
        "symbol": "circle",
        "size": 12,
        "color": look.paper,
        "line": {"width": 2.5, "color": look.ink},
    }
    font = {
        "font": {"size": 12, "color": look.ink},
        "bgcolor": look.paper,
        "borderpad": 2,
        "opacity": 0.9,
    }
    for row in points.to_dict("records"):
        at, name = {"x": row["x"], "y": row["y"]}, plain(words.method_name(row["method"]))
        trace = {
            "x": [row["x"]],
            "y": [row["y"]],
            "mode": "markers",
            "marker": marker,
            "showlegend": False,
        }
        figure.add_scatter(**trace, cliponaxis=False, hovertemplate=f"{name}<extra></extra>")
        figure.add_annotation(
            **at, text=f"<b>{plain(short(row['method']))}</b>", showarrow=False, yshift=18, **font
        )
    figure.update_xaxes(showgrid=False, nticks=5)
    figure.update_yaxes(showgrid=False, nticks=5)
    return figure


def _ends(points: pd.DataFrame) -> tuple[str, str]:
    """The models furthest along either axis."""
    return str(points.loc[points["x"].idxmax(), "method"]), str(
        points.loc[points["y"].idxmax(), "method"]
    )


def _answer(table: pd.DataFrame, points: pd.DataFrame) -> tuple[str, str]:
    """Loss at the models, and where the lowest point of the plane lies."""
    parts, losses = [], []
    for row in points.to_dict("records"):
        near = table.loc[((table["x"] - row["x"]) ** 2 + (table["y"] - row["y"]) ** 2).idxmin()]
        losses.append(float(row.get("loss", near["loss"])))
        parts.append(f"{words.method_name(row['method'])} {phrasing.number(losses[-1])}")
    low, high = float(table["loss"].min()), float(table["loss"].max())
    least = words.method_name(str(points["method"].iat[losses.index(min(losses))]))
    where = (
        f"at none of the three; of these it is lowest at {least}"
        if low < min(losses)
        else f"at {least}"
    )
    return (
        f"Loss at the three models: {phrasing.listing(parts)}.",
        (
            f"On this plane it runs from {phrasing.number(low)} to {phrasing.number(high)} and is"
            f" lowest {where}. The paths say whether a ridge lies between."
        ),
    )


# The straight way from BiFP to each of its ablations: is there a ridge in between, and how high
# (Fig. 8).


PATH_QUESTION = "Is there a ridge between BiFP and the models without its parts?"
START = "bifp-str"
LOW = 0.01
"""Height, in nats, below which no ridge is named."""
PATH_COLUMNS = "other t loss accuracy gap loss_without_recalibration"
WITHOUT = "loss, batch statistics as they were"


def has_path(run: Run, choice: Choice) -> bool:
    return run.has("path") and len(lookup.frame(run, "path")) > 0


def path(run: Run, choice: Choice) -> Panel:
    """Loss and accuracy gap along straight lines of weights; 0 is BiFP, 1 the other model."""
    if not has_path(run, choice):
        return nothing("fair_path", PATH_QUESTION, ABSENT)
    table = lookup.frame(run, "path")
    others = track_of(run).order(table["other"].unique())
    parts = (
        _column(choice, table, others, "loss", "Loss"),
        _column(choice, table, others, "gap", "Accuracy gap"),
    )
    note = (
        "One seed, one set of images. Height of a ridge: how far the loss rises above the "
        f"straight line between its two ends; below {LOW:g} none is named. Batch statistics are "
        "computed again at every point. The thin broken lines leave that out, and old statistics "
        "make part of their ridges. A low ridge shows that the two models are near each other, "
        "not that either is fair."
    )
    answer, more = _path_answer(table, others)
    heads = {"other": "other model", "t": "share of the way"}
    named = table.assign(other=table["other"].map(words.method_name))
    shown = readable(named, PATH_COLUMNS, loss_without_recalibration=WITHOUT, **heads)
    return Panel("fair_path", PATH_QUESTION, answer, None, shown, note, parts, True, more=more)


def barrier(rows: pd.DataFrame) -> float:
    """Largest rise of the loss above the straight line between its ends; never below 0."""
    rows = rows.sort_values("t")
    t, loss = rows["t"].to_numpy(dtype=float), rows["loss"].to_numpy(dtype=float)
    line = loss[0] + (loss[-1] - loss[0]) * (t - t[0]) / max(t[-1] - t[0], 1e-12)
    return float(max(0.0, np.max(loss - line)))


def _column(
    choice: Choice, table: pd.DataFrame, others: list[str], column: str, title: str
) -> go.Figure:
    looks, rows = looks_of(choice, others), table.sort_values("t")
    said = hovers(rows, f"other t {column}", other=short, t="share of the way")
    figure = lines(
        choice,
        rows.assign(hover=said),
        "t",
        column,
        looks,
        (f"{short(START)} (0) to the other (1)", title.lower()),
        by="other",
        named=short,
        title=title,
        ticks="",
    )
    for other, style in looks.items() if column == "loss" else ():
        mine = rows[rows["other"] == other]
        if "loss_without_recalibration" in mine:
            line = {"color": style.colour, "width": 1, "dash": "dot"}
            y = mine["loss_without_recalibration"]
            silent(figure, mine["t"], y, mode="lines", line=line, opacity=0.6)
    figure.update_xaxes(tickvals=[0, 0.5, 1], showgrid=True)
    return figure


def _path_answer(table: pd.DataFrame, others: list[str]) -> tuple[str, str]:
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
    found = f"a ridge lies on that to {phrasing.listing(ridges)}" if ridges else "no ridge is found"
    of = phrasing.count(len(others), "straight line")
    return (
        f"On the {of} from {words.method_name(START)}, {found}.",
        f"From a loss of {start}: {'; '.join(parts)}.",
    )

"""The loss around BiFP: on the plane through it and two ablations, and where each of them lies
(Fig. 8)."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.columns import readable, titled
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain
from engine.store.runs import Run
from engine.tracks.fair_training.panels.lookup import short

QUESTION = "What does the loss look like between BiFP and what it would be without its parts?"
ABSENT = (
    "This audit has no loss surface. Ask for it under “Trade-off over λ, and loss surface” on the"
    " page “New audit”, or with --surface on the command line; it needs BiFP-str and its ablations."
)
SHOWN = {"loss": "loss", "gap": "accuracy gap", "accuracy": "accuracy"}
COLUMNS = titled(x="x", y="y", loss="loss", accuracy="accuracy", gap="accuracy gap")


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
        "One seed, one set of images, one plane of very many: the models lie on it, the rest of it"
        " nobody trained. The mask is BiFP's only at BiFP; in between, weights that one of the"
        " models lacks come back in part. Batch statistics are worked out again at every point."
    )
    (answer, more), figure = _answer(table, points), _figure(choice, table, points, show)
    return Panel(
        "fair_surface", QUESTION, answer, figure, readable(table, COLUMNS), note, more=more
    )


def _figure(choice: Choice, table: pd.DataFrame, points: pd.DataFrame, show: str) -> go.Figure:
    grid = table.pivot(index="y", columns="x", values=show).sort_index().sort_index(axis=1)
    look, (x, y) = choice.theme, _ends(points)
    figure = blank(
        choice, 440, f"weights, towards {plain(short(x))}", f"weights, towards {plain(short(y))}"
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
        f"at none of the three; of them it is lowest at {least}"
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

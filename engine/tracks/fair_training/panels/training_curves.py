"""How one variant was trained: loss, the gap that training follows beside the measured one,
accuracy; seed by seed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import add_series, heading, lines, looks_of, remark, silent
from engine.report.charts.lookup import trials_of
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain
from engine.report.palette import Style, series_styles
from engine.report.schema import hovers, readable
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.methods import LOOKS
from engine.tracks.fair_training.panels.curve import fair_axis, short

QUESTION = "How did training go, and does the gap it follows stand for the measured one?"
HEIGHT = 320
COLUMNS = {
    "Loss": {"loss": ("on training images", 0), "val_loss": ("on validation images", 1)},
    "Gap": {"gap": ("measured, validation", 1), "surrogate_gap": ("surrogate, training", 0)},
    "Accuracy": {"accuracy": ("on validation images", 1)},
}
"""Columns of the curves table that are drawn together, with their names and which style they have.
"""
MOVES = {
    0.7: "moves with",
    0.3: "moves partly with",
    -0.3: "hardly moves with",
    -2.0: "moves against",
}
"""Rank correlations above which the surrogate is said to do so: words for reading, no test."""
LEAST = 3
"""Looks at validation images from which on surrogate and measured gap are compared."""
SAID = (
    "seed phase step loss penalty surrogate_gap gap degradation accuracy val_loss mask_updates"
    " examples seconds"
)


def training(run: Run, choice: Choice) -> Panel:
    """Three columns over weight updates: loss, gaps, accuracy; thin lines are seeds."""
    variant, table = lookup.variant_of(run, choice), curves(run, choice)
    if table.empty:
        return nothing(
            "fair_training",
            QUESTION,
            "No training was kept for this variant; choose a method that trains.",
        )
    name = lookup.variant_label(run, variant)
    parts = tuple(_column(choice, table, title, lines) for title, lines in COLUMNS.items())
    seeds = table["variant"].nunique()
    note = (
        f"{name}, {phrasing.count(seeds, 'seed')}, each a line; gap of "
        f"{words.axis_name(fair_axis(run))}. {own.SURROGATE} Validation points have no interval: "
        "each is one model on one set of images. Dotted lines are of every batch, as running "
        f"means over {SMOOTH} updates. Vertical lines: where a phase begins."
    )
    answer, more = _answer(name, table, float(variant.get("strength", 0.0)) > 0)
    shown = readable(table, SAID, penalty="fairness term", gap="measured gap")
    return Panel("fair_training", QUESTION, answer, None, shown, note, parts, True, more=more)


def curves(run: Run, choice: Choice) -> pd.DataFrame:
    """Rows of all seeds of the chosen variant, by seed and step."""
    seeds, table = trials_of(run, choice), lookup.table(run, "curves", "variant step")
    mine = table[table["variant"].isin(seeds["variant"])]
    mine = mine.assign(seed=mine["variant"].map(seeds.set_index("variant")["seed"]))
    return mine.sort_values(["seed", "step"], ignore_index=True)


def _column(
    choice: Choice, table: pd.DataFrame, title: str, lines: dict[str, tuple[str, int]]
) -> go.Figure:
    """One quantity, perhaps in two versions; a line per seed."""
    figure, styles = updates_figure(choice, HEIGHT, title, 6, 1.1), series_styles(choice.dark)
    for column, (name, which) in lines.items():
        if column not in table or table[column].isna().all():
            continue
        for place, (_, rows) in enumerate(table.dropna(subset=column).groupby("seed")):
            said = hovers(rows, f"seed step {column}", seed=lambda seed: f"seed {seed}")
            _line(figure, rows.assign(hover=said), column, styles[which], name, not place)
    # A line where one phase ends and the next begins, with the name of the next one.
    first = table[table["seed"] == table["seed"].min()]
    starts = first.groupby("phase", sort=False)["step"].min()
    top = {"y": 1, "yref": "paper", "yanchor": "top", "xanchor": "left", "xshift": 3}
    for phase, step in list(starts.items())[1:]:
        figure.add_vline(x=step, line={"color": choice.theme.soft, "width": 1, "dash": "dot"})
        remark(figure, choice, plain(own.phase_name(str(phase))), x=step, **top)
    heading(figure, title)
    return figure


def _answer(name: str, table: pd.DataFrame, fair: bool) -> tuple[str, str]:
    """Where the measured gap and accuracy end; then whether the surrogate moved with the measured
    gap."""
    looked = table[table["gap"].notna()]
    if looked.empty:
        seen = table[table["accuracy"].notna()]
        if seen.empty:
            return f"{name} was never looked at on validation images while it was trained.", ""
        ends = _ends(seen.sort_values("step").groupby("seed").tail(1)["accuracy"])
        few = "too few validation images of two subgroups for a gap"
        return f"{name} ends at a validation accuracy of {ends}; {few}.", ""
    last = looked.sort_values("step").groupby("seed").tail(1)
    text = (
        f"{name} ends at a measured gap of {_ends(last['gap'])} and an accuracy of"
        f" {_ends(last['accuracy'])}"
    )
    text += f" on validation images, after {last['step'].max():,.0f} weight updates."
    both, more = looked[looked["surrogate_gap"].notna()], ""
    if both.groupby("seed").size().min() >= LEAST and both["surrogate_gap"].std() > 0:
        found = [
            rows["gap"].corr(rows["surrogate_gap"], method="spearman")
            for _, rows in both.groupby("seed")
        ]
        known = [value for value in found if math.isfinite(value)]
        if known:
            mean = sum(known) / len(known)
            kind = next(said for least, said in MOVES.items() if mean > least)
            ends = _ends(pd.Series(known))
            more = (
                f"The surrogate gap {kind} the measured gap over training (rank correlation"
                f" {ends})."
            )
    watched = (
        "" if fair else " It was trained without the fairness term: the surrogate was only watched."
    )
    return text, f"{more}{watched}".strip()


def _ends(values: pd.Series) -> str:
    low, high, mean = (
        phrasing.number(float(value)) for value in (values.min(), values.max(), values.mean())
    )
    return (
        low
        if len(values) < 2 or values.min() == values.max()
        else f"{mean} ({low} to {high} over seeds)"
    )


# Lines over weight updates: what is known of every batch as a running mean, looks at validation
# images as points.


SMOOTH = 15
"""Updates over which what is known of every batch is averaged for a chart; tables have every
update."""


def updates_figure(choice: Choice, height: int, title: str, ticks: int, legend: float) -> go.Figure:
    """An empty column over weight updates; `ticks` on the y axis at most, `legend`: how high it
    lies."""
    figure = blank(choice, height, "weight updates")
    figure.update_xaxes(nticks=5, tickangle=0, rangemode="tozero")
    figure.update_yaxes(nticks=ticks, rangemode="tozero" if title == "Gap" else "normal")
    figure.update_layout(legend={"y": legend, "font": {"size": 12}}, margin={"t": 30})
    return figure


def smooth(rows: pd.DataFrame, column: str) -> pd.Series:
    """A column of one training by step: looks as they are, anything else as a running mean."""
    values = rows[column]
    return values if column in LOOKS else values.rolling(SMOOTH, min_periods=1, center=True).mean()


def _line(
    figure: go.Figure, rows: pd.DataFrame, column: str, style: Style, name: str, named: bool
) -> None:
    """A column of one training: looks as points on a line, what is known of every batch as a dotted
    line. named: whether its name stands in the legend."""
    looks = column in LOOKS
    style = replace(style, dash="solid" if looks else "dot")
    mode, y = "lines+markers" if looks else "lines", smooth(rows, column)
    add_series(figure, rows, rows["step"], y, style, False, mode=mode, name=name, showlegend=named)


# A training that runs now: its curve so far, the newest training in front of those before it.


LIVE_QUESTION = "How is the training going?"
BEFORE = 6
"""Earlier trainings drawn in the background at most."""
LIVE_HEIGHT = 290
LIVE_COLUMNS = {
    "Accuracy": (("accuracy", "validation images", 0),),
    "Gap": (("gap", "measured, validation", 1), ("surrogate_gap", "surrogate, training", 0)),
    "Loss": (("loss", "training images", 0),),
}
LIVE_SAID = "training phase step loss accuracy gap surrogate_gap examples seconds"


def live(points: pd.DataFrame, choice: Choice) -> Panel:
    """`points`: rows as the job wrote them, with the column shard. The newest shard is the last
    that wrote."""
    if points.empty:
        return nothing("fair_live", LIVE_QUESTION, "No training has said anything yet.")
    order = list(dict.fromkeys(points["shard"].iloc[::-1]))
    parts = tuple(_live_column(points, order, choice, title) for title in LIVE_COLUMNS)
    note = (
        "Grey: trainings of this job that are done. Dotted lines and the loss are running means "
        f"over {SMOOTH} updates. Points show validation images and have no interval. Results on "
        "test images come when all is finished."
    )
    last = pd.DataFrame([_last(points, shard) for shard in order])
    last = last.assign(training=last["shard"].map(words.work_name))
    shown = readable(last, LIVE_SAID, phase=own.phase_name, gap="measured gap (validation)")
    answer = _live_answer(points, order)
    return Panel("fair_live", LIVE_QUESTION, answer, None, shown, note, parts, True)


def _live_column(points: pd.DataFrame, order: list[str], choice: Choice, title: str) -> go.Figure:
    figure, styles = updates_figure(choice, LIVE_HEIGHT, title, 5, 1.12), series_styles(choice.dark)
    grey = replace(styles[0], colour=choice.theme.soft)
    for shard in reversed(order[1 : 1 + BEFORE]):
        _live_line(figure, points, shard, LIVE_COLUMNS[title][0][0], grey)
    for column, name, which in LIVE_COLUMNS[title]:
        _live_line(figure, points, order[0], column, styles[which], name)
    heading(figure, title)
    return figure


def _live_line(
    figure: go.Figure, points: pd.DataFrame, shard: str, column: str, style: Style, name: str = ""
) -> None:
    rows = _of(points, shard, column)
    seen = " ".join(("shard", "step", column))
    said = hovers(rows.assign(shard=shard), seen, shard=words.work_name)
    _line(figure, rows.assign(hover=said), column, style, name or shard, bool(name))


def _of(points: pd.DataFrame, shard: str, column: str) -> pd.DataFrame:
    """What a shard said of a column, by step; empty where it never did."""
    if column not in points:
        return pd.DataFrame({"step": [], column: []})
    rows = points[(points["shard"] == shard) & points[column].notna()]
    return rows.sort_values("step")


def _live_answer(points: pd.DataFrame, order: list[str]) -> str:
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


def _last(points: pd.DataFrame, shard: str) -> Values:
    """The last known value of every column of a shard."""
    rows = points[points["shard"] == shard].sort_values("step")
    return rows.ffill().iloc[-1].to_dict()


# The loss around BiFP: on the plane through it and two ablations, and where each of them lies
# (Fig. 8).


SURFACE_QUESTION = (
    "What does the loss look like between BiFP and what it would be without its parts?"
)
ABSENT = (
    "This audit has no loss surface. Ask for it under “Trade-off over λ, and loss surface” on the "
    "page “New audit”, or with --surface. It needs BiFP-str and its ablations."
)
SHOWN = {"loss": "loss", "gap": "accuracy gap", "accuracy": "accuracy"}
SURFACE_COLUMNS = "x y loss accuracy gap"


def has_surface(run: Run, choice: Choice) -> bool:
    names = ("surface", "surface_points")
    return not any(lookup.table(run, name, "x").empty for name in names)


def surface(run: Run, choice: Choice, show: str = "loss") -> Panel:
    """Contours of loss, accuracy or gap; the three models as points."""
    if not has_surface(run, choice):
        return nothing("fair_surface", SURFACE_QUESTION, ABSENT)
    table, points = lookup.frame(run, "surface"), lookup.frame(run, "surface_points")
    table = table[table["method_b"] == table["method_b"].iat[0]]
    note = (
        "One seed, one set of images, one plane of very many. Only the models on it were trained, "
        "not the points between. The mask is BiFP's only at BiFP; between models, weights that "
        "one of them lacks come back in part. Batch statistics are computed again at every point."
    )
    (answer, more), figure = _surface_answer(table, points), _figure(choice, table, points, show)
    return Panel(
        "fair_surface",
        SURFACE_QUESTION,
        answer,
        figure,
        readable(table, SURFACE_COLUMNS),
        note,
        more=more,
    )


def _figure(choice: Choice, table: pd.DataFrame, points: pd.DataFrame, show: str) -> go.Figure:
    grid = table.pivot(index="y", columns="x", values=show).sort_index().sort_index(axis=1)
    look, (x, y) = choice.theme, _surface_ends(points)
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


def _surface_ends(points: pd.DataFrame) -> tuple[str, str]:
    """The models furthest along either axis."""
    return str(points.loc[points["x"].idxmax(), "method"]), str(
        points.loc[points["y"].idxmax(), "method"]
    )


def _surface_answer(table: pd.DataFrame, points: pd.DataFrame) -> tuple[str, str]:
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
    return not lookup.table(run, "path", "t").empty


def path(run: Run, choice: Choice) -> Panel:
    """Loss and accuracy gap along straight lines of weights; 0 is BiFP, 1 the other model."""
    if not has_path(run, choice):
        return nothing("fair_path", PATH_QUESTION, ABSENT)
    table = lookup.frame(run, "path")
    others = track_of(run).methods.order(table["other"].unique())
    parts = (
        _surface_column(choice, table, others, "loss", "Loss"),
        _surface_column(choice, table, others, "gap", "Accuracy gap"),
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


def _surface_column(
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
        f"The loss begins at {start}. {phrasing.sentences(parts)}",
    )

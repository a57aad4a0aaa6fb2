"""How one variant was trained: loss, the gap that training follows beside the measured one,
accuracy; seed by seed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_of
from engine.report.charts.kinds import add_series
from engine.report.charts.marks import heading, remark
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain
from engine.report.palette import Style, series_styles
from engine.report.schema import hovers, readable
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import fair_axis

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
    if not run.has("curves"):
        return pd.DataFrame()
    seeds, table = trials_of(run, choice), lookup.frame(run, "curves")
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
    _phases(figure, choice, table)
    heading(figure, title)
    return figure


def _phases(figure: go.Figure, choice: Choice, table: pd.DataFrame) -> None:
    """A line where one phase ends and the next begins, with the name of the next one."""
    first = table[table["seed"] == table["seed"].min()]
    starts = first.groupby("phase", sort=False)["step"].min()
    top = {"y": 1, "yref": "paper", "yanchor": "top", "xanchor": "left", "xshift": 3}
    for phase, step in list(starts.items())[1:]:
        figure.add_vline(x=step, line={"color": choice.theme.soft, "width": 1, "dash": "dot"})
        remark(figure, choice, plain(own.phase_name(str(phase))), x=step, **top)


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
LOOKS = ("gap", "accuracy", "val_loss")
"""Columns of what a look at validation images found; the others are known of every batch."""


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
    said = hovers(
        rows.assign(shard=shard), " ".join(("shard", "step", column)), shard=words.work_name
    )
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


def _last(points: pd.DataFrame, shard: str) -> dict[str, Any]:
    """The last known value of every column of a shard."""
    rows = points[points["shard"] == shard].sort_values("step")
    return rows.ffill().iloc[-1].to_dict()

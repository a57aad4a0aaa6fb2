"""How one variant was trained: loss, the gap that training follows beside the measured one,
accuracy; seed by seed."""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_of
from engine.report.charts.columns import readable, titled
from engine.report.charts.marks import entry, heading, remark
from engine.report.charts.panel import Choice, Panel, nothing, plain
from engine.report.palette import series_styles
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import fair_axis
from engine.tracks.fair_training.panels.training_lines import (
    SMOOTH,
    line_look,
    smooth,
    updates_figure,
)

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
    *titled(
        seed="seed", phase="phase", step="weight updates", loss="loss", penalty="fairness term"
    ),
    *titled(
        surrogate_gap="surrogate gap",
        gap="measured gap",
        degradation="degradation gap",
        accuracy="accuracy",
    ),
    *titled(
        val_loss="validation loss",
        mask_updates="mask updates",
        examples="examples",
        seconds="seconds",
    ),
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
        f"{name}, {phrasing.count(seeds, 'seed')}, each a line; gap of"
        f" {words.axis_name(fair_axis(run))}. {own.SURROGATE} Validation points have no interval:"
        " they are looks at one model on one set of images. Dotted lines are of every batch, as"
        f" running means over {SMOOTH} updates. Vertical lines: where a phase begins."
    )
    answer, more = _answer(name, table, float(variant.get("strength", 0.0)) > 0)
    return Panel(
        "fair_training", QUESTION, answer, None, readable(table, SAID), note, parts, True, more=more
    )


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
        look = line_look(column, styles[which], 1.6, 6)
        for seed, rows in table.groupby("seed"):
            rows = rows[rows[column].notna()]
            said = f"seed {seed}, %{{x}} updates<br>{name} %{{y:.3f}}<extra></extra>"
            trace = {"x": rows["step"], "y": smooth(rows, column), "hovertemplate": said, **look}
            figure.add_scatter(**trace, showlegend=False, opacity=0.8)
        entry(figure, name, **line_look(column, styles[which], 2, 7))
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

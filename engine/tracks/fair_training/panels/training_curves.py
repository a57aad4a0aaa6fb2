"""How one variant was trained: loss, the gap that training follows beside the measured one, accuracy; seed by seed."""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain
from engine.report.palette import series_styles
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import entry, fair_axis, heading, seeds_of

QUESTION = "How did training go, and does the gap it follows stand for the measured one?"
HEIGHT = 320
COLUMNS = {
    "Loss": {"loss": ("on training images", 0), "val_loss": ("on validation images", 1)},
    "Gap": {"gap": ("measured, validation", 1), "surrogate_gap": ("surrogate, training", 0)},
    "Accuracy": {"accuracy": ("on validation images", 1)},
}
"""Columns of the curves table that are drawn together, with their names and which style they have."""
SMOOTH = 15
"""Updates over which what is known of every batch is averaged for the chart; the table has every update."""
MOVES = {0.7: "moves with", 0.3: "moves partly with", -0.3: "hardly moves with", -2.0: "moves against"}
"""Rank correlations above which the surrogate is said to do so: words for reading, no test."""
LEAST = 3
"""Looks at validation images from which on surrogate and measured gap are compared."""


def training(run: Run, choice: Choice) -> Panel:
    """Three columns over weight updates: loss, gaps, accuracy; thin lines are seeds."""
    variant, table = lookup.variant_of(run, choice), curves(run, choice)
    if table.empty:
        return nothing("fair_training", QUESTION, "No training was kept for this variant; choose a method that trains.")
    name = lookup.variant_label(run, variant)
    parts = tuple(_column(choice, table, title, lines) for title, lines in COLUMNS.items())
    seeds = table["variant"].nunique()
    note = (
        f"{name}, {phrasing.count(seeds, 'seed')}, each a line; gap of {words.axis_name(fair_axis(run))}. "
        f"{own.SURROGATE} Validation points have no interval: they are looks at one model on one set of images. "
        f"Dotted lines are of every batch, as running means over {SMOOTH} updates. Vertical lines: where a phase "
        "begins."
    )
    answer = _answer(name, table, float(variant.get("strength", 0.0)) > 0)
    return Panel("fair_training", QUESTION, answer, None, _readable(table), note, parts, True)


def curves(run: Run, choice: Choice) -> pd.DataFrame:
    """Rows of all seeds of the chosen variant, by seed and step."""
    if not run.has("curves"):
        return pd.DataFrame()
    seeds, table = seeds_of(run, choice), lookup.frame(run, "curves")
    mine = table[table["variant"].isin(seeds["variant"])]
    mine = mine.assign(seed=mine["variant"].map(seeds.set_index("variant")["seed"]))
    return mine.sort_values(["seed", "step"], ignore_index=True)


def _column(choice: Choice, table: pd.DataFrame, title: str, lines: dict[str, tuple[str, int]]) -> go.Figure:
    """One quantity, perhaps in two versions; a line per seed."""
    figure = blank(choice, HEIGHT, "weight updates")
    styles = series_styles(choice.dark)
    for column, (name, which) in lines.items():
        if column not in table or table[column].isna().all():
            continue
        style = styles[which]
        looks = column in ("gap", "accuracy", "val_loss")
        for seed, rows in table.groupby("seed"):
            rows = rows[rows[column].notna()]
            value = rows[column] if looks else rows[column].rolling(SMOOTH, min_periods=1, center=True).mean()
            figure.add_trace(go.Scatter(
                x=rows["step"], y=value, mode="lines+markers" if looks else "lines", showlegend=False,
                line={"color": style.colour, "width": 1.6, "dash": "solid" if looks else "dot"}, opacity=0.8,
                marker={"symbol": style.symbol, "size": 6, "color": style.colour},
                hovertemplate=f"seed {seed}, %{{x}} updates<br>{name} %{{y:.3f}}<extra></extra>",
            ))  # fmt: skip
        entry(figure, name, mode="lines+markers" if looks else "lines",
              line={"color": style.colour, "width": 2, "dash": "solid" if looks else "dot"},
              marker={"symbol": style.symbol, "size": 7, "color": style.colour})  # fmt: skip
    _phases(figure, choice, table)
    heading(figure, title)
    figure.update_xaxes(nticks=5, tickangle=0, rangemode="tozero")
    figure.update_yaxes(nticks=6, rangemode="tozero" if title == "Gap" else "normal")
    figure.update_layout(legend={"y": 1.1, "font": {"size": 12}}, margin={"t": 30})
    return figure


def _phases(figure: go.Figure, choice: Choice, table: pd.DataFrame) -> None:
    """A line where one phase ends and the next begins, with the name of the next one."""
    first = table[table["seed"] == table["seed"].min()]
    starts = first.groupby("phase", sort=False)["step"].min()
    for phase, step in list(starts.items())[1:]:
        figure.add_vline(x=step, line={"color": choice.theme.soft, "width": 1, "dash": "dot"})
        figure.add_annotation(
            x=step, y=1, yref="paper", yanchor="top", xanchor="left", text=plain(own.phase_name(str(phase))),
            showarrow=False, xshift=3, font={"size": 11, "color": choice.theme.soft},
        )  # fmt: skip


def _answer(name: str, table: pd.DataFrame, fair: bool) -> str:
    """Where the measured gap and accuracy end, and whether the surrogate moved with the measured gap."""
    looked = table[table["gap"].notna()]
    if looked.empty:
        seen = table[table["accuracy"].notna()]
        if seen.empty:
            return f"{name} was never looked at on validation images while it was trained."
        ends = _ends(seen.sort_values("step").groupby("seed").tail(1)["accuracy"])
        return f"{name} ends at a validation accuracy of {ends}; too few validation images of two subgroups for a gap."
    last = looked.sort_values("step").groupby("seed").tail(1)
    text = f"{name} ends at a measured gap of {_ends(last['gap'])} and an accuracy of {_ends(last['accuracy'])}"
    text += f" on validation images, after {last['step'].max():,.0f} weight updates."
    both = looked[looked["surrogate_gap"].notna()]
    if both.groupby("seed").size().min() >= LEAST and both["surrogate_gap"].std() > 0:
        found = [rows["gap"].corr(rows["surrogate_gap"], method="spearman") for _, rows in both.groupby("seed")]
        known = [value for value in found if math.isfinite(value)]
        if known:
            mean = sum(known) / len(known)
            kind = next(said for least, said in MOVES.items() if mean > least)
            ends = _ends(pd.Series(known))
            text += f" The surrogate {kind} the measured gap over training (rank correlation {ends})."
    return text if fair else f"{text} It was trained without the fairness term: the surrogate was only watched."


def _ends(values: pd.Series) -> str:
    low, high = values.min(), values.max()
    if len(values) < 2 or low == high:
        return phrasing.number(float(low))
    return f"{phrasing.number(float(values.mean()))} ({phrasing.number(float(low))} to {phrasing.number(float(high))} over seeds)"


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    names = {"seed": "seed", "phase": "phase", "step": "weight updates", "loss": "loss", "penalty": "fairness term",
             "surrogate_gap": "surrogate gap", "gap": "measured gap", "degradation": "degradation gap",
             "accuracy": "accuracy", "val_loss": "validation loss", "mask_updates": "mask updates",
             "examples": "examples", "seconds": "seconds"}  # fmt: skip
    return table[[name for name in names if name in table]].rename(columns=names)

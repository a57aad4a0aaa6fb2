"""What is left of every layer: the chosen level as bars, all levels as a heat map. Means over the
repeats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.heat_map import bar_above, cells
from engine.report.charts.kinds import HOVER, ON_STRONG, bars, silent
from engine.report.charts.lookup import trials_said
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain
from engine.report.schema import readable, title_of
from engine.report.tracks import Level, track_of
from engine.store.runs import Run

MANY = 24
"""Layers from which on rows are thin and unlabelled numbers are left to the hover."""
LONGEST_NAME = 26
CONVOLUTIONS = (
    "what is cut together; convolutions tied by residual sums or depthwise convolutions count once"
)


def layer_survival(run: Run, choice: Choice) -> Panel:
    """Share of filters (or weights) kept per layer at the chosen level, with the range over the
    repeats."""
    question = "How much of each layer is left?"
    variant = lookup.variant_of(run, choice)
    if not variant["n_cut"]:
        return nothing("layer_survival", question, "Nothing is cut here: every layer is whole.")
    table = survival_of(run, choice)
    if table.empty:
        return nothing("layer_survival", question, "This run has no layers for this choice.")
    figure = _bars(run, choice, table)
    least, most = table.loc[table["share"].idxmin()], table.loc[table["share"].idxmax()]
    ends = f"{_named(least)} keeps least, {_kept(least)}; {_named(most)} keeps most, {_kept(most)}"
    if most["share"] - least["share"] < 1e-9:
        ends = f"every layer keeps {phrasing.percent(least['share'])} of its {least['units']}"
    answer = f"{lookup.variant_label(run, variant)}: {ends}."
    few = int((table["share"] < 0.5).sum())
    more = f"{few} of {phrasing.count(len(table), 'layer')} keep less than half."
    told = shown(run, table), note(run)
    return Panel("layer_survival", question, answer, figure, *told, more=more)


def layers_by_speedup(run: Run, choice: Choice) -> Panel:
    """Layers against levels, share kept in colour."""
    level = track_of(run).level
    question = (
        f"Which layers go first as {'the model gets faster' if level.is_ratio else 'more is cut'}?"
    )
    table = survival(run, choice.method)
    if table.empty:
        return nothing("layers_by_speedup", question, "This run has no layers for this method.")
    figure, (answer, more) = _heat(choice, level, table), _first_to_go(choice, level, table)
    told = shown(run, table), note(run)
    return Panel("layers_by_speedup", question, answer, figure, *told, more=more)


def survival_of(run: Run, choice: Choice) -> pd.DataFrame:
    """`survival` of the chosen method at the chosen level alone."""
    table = survival(run, choice.method)
    if table.empty:
        return table
    return table[at_level(table["level"], choice.level)].reset_index(drop=True)


def survival(run: Run, method: str) -> pd.DataFrame:
    """One row per level and layer of an arm: filters (or what `units` names) before, kept (mean
    over the repeats), least, most, share. `said`: the level in words."""
    if not run.has("layers"):
        return pd.DataFrame()
    variants, level = lookup.frame(run, "variants"), track_of(run).level
    reported = lookup.reported(run)["variant"]
    mine = variants[
        (variants["method"] == method) & (variants["seed"] >= 0) & variants["pooled"].isin(reported)
    ]
    mine = mine.assign(
        level=mine[level.column],
        units=mine["units"] if "units" in mine else track_of(run).nouns.many,
    )
    rows = lookup.frame(run, "layers").merge(mine[["variant", "level", "units"]], on="variant")
    if rows.empty:
        return rows
    grouped = rows.groupby(["level", "layer", "group"], sort=True)
    table = grouped.agg(
        filters=("filters", "first"),
        kept=("kept", "mean"),
        least=("kept", "min"),
        units=("units", "first"),
        most=("kept", "max"),
        trials=("kept", "size"),
    ).reset_index()
    said = table["level"].map(level.say)
    return table.assign(
        share=table["kept"] / table["filters"],
        method=method,
        said=said,
        repeat=track_of(run).nouns.repeat,
    )


def _named(row: pd.Series) -> str:
    return f"layer {row['layer']} ({row['group']})"


def _kept(row: pd.Series) -> str:
    return (
        f"{_some(row['kept'])} of {row['filters']:,.0f} {row['units']},"
        f" {phrasing.percent(row['share'])}"
    )


def _some(kept: float) -> str:
    """A mean of whole numbers."""
    return f"{kept:.3g}" if kept < 1000 else f"{kept:,.0f}"


def layer_of(run: Run) -> tuple[str, str]:
    """What names a layer in a table, and what a layer is."""
    if track_of(run).nouns.one == "head":
        return "attention layer", "an attention layer"
    return "first convolution", CONVOLUTIONS


def note(run: Run) -> str:
    return (
        f"Mean over {trials_said(run)}; whiskers and hover give the least and most. Layers count"
        f" from 0 at the input. A layer here is {layer_of(run)[1]}."
    )


def _label(row: dict) -> str:
    name = str(row["group"])
    short = name if len(name) <= LONGEST_NAME else f"…{name[-LONGEST_NAME + 1 :]}"
    return f"{row['layer']}  {plain(short)}"


def hover_of(row: dict) -> str:
    share = phrasing.percent(round(row["share"], 3))
    kept = f"{_some(row['kept'])} of {row['filters']:,.0f} {row['units']} kept ({share})"
    ends = (
        f"{row['least']:,.0f} to {row['most']:,.0f} over"
        f" {phrasing.count(int(row['trials']), row['repeat'])}"
    )
    return (
        f"<b>layer {row['layer']}: {plain(str(row['group']))}</b>, {row['said']}<br>{kept}, {ends}"
    )


def map_height(layers: int) -> int:
    return 110 + layers * (26 if layers <= MANY else 16)


def _bars(run: Run, choice: Choice, table: pd.DataFrame) -> go.Figure:
    figure = blank(choice, map_height(len(table)), f"share of {table['units'].iat[0]} kept")
    least, most = (table[end] / table["filters"] for end in ("least", "most"))
    error = bars(table["share"], least, most, choice.theme.ink, 1.2)
    colour = track_of(run).methods.style(choice.method, choice.dark).colour
    texts = [hover_of(row) for row in table.to_dict("records")]
    figure.add_bar(
        x=table["share"],
        y=table["layer"],
        text=texts,
        hovertemplate=HOVER,
        textposition="none",
        orientation="h",
        marker={"color": colour},
        width=0.62,
        showlegend=False,
        error_x=error,
    )
    layer_rows(figure, table)
    figure.update_xaxes(range=[0, 1.02], tickformat=".0%", showgrid=True, nticks=5)
    return figure


def layer_rows(figure: go.Figure, table: pd.DataFrame, tops: Sequence[int] | None = None) -> None:
    """Layers from top to bottom, as the image goes through them; tops: their first rows, and the
    end, where a layer has several."""
    layers = table.drop_duplicates("layer").sort_values("layer").to_dict("records")
    tops = range(len(layers) + 1) if tops is None else tops
    names = {
        "tickvals": [tops[row["layer"]] for row in layers],
        "ticktext": [_label(row) for row in layers],
    }
    figure.update_yaxes(**names, tickfont={"size": 12 if len(layers) <= MANY else 10})
    figure.update_yaxes(range=[tops[-1] - 0.5, -0.5], showgrid=False, showline=False, ticks="")


def _heat(choice: Choice, level: Level, table: pd.DataFrame) -> go.Figure:
    levels = sorted(table["level"].unique())
    table = table.assign(text=[hover_of(row) for row in table.to_dict("records")])
    shares, texts = (
        table.pivot(index="layer", columns="level", values=name)[levels]
        for name in ("share", "text")
    )
    figure = blank(
        choice, map_height(len(shares)), "target speedup" if level.is_ratio else level.noun
    )
    places = {
        "x": list(range(len(levels))),
        "y": shares.index.tolist(),
        "zmin": 0,
        "zmax": 1,
        "hoverongaps": None,
    }
    said = {"customdata": texts.to_numpy(), "hovertemplate": "%{customdata}<extra></extra>"}
    bar = bar_above(choice, [0.03, 0.5, 0.97], ["all cut", "half", "whole"])
    cells(figure, shares.to_numpy(), choice.theme.sequential, **places, **said, colorbar=bar)
    if len(shares) <= MANY and len(levels) <= 8:
        _write(figure, choice, shares)
    layer_rows(figure, table)
    figure.update_xaxes(
        ticks="", tickvals=list(range(len(levels))), ticktext=[level.say(value) for value in levels]
    )
    figure.update_layout(margin={"t": 44, "b": 52})
    return figure


def _write(figure: go.Figure, choice: Choice, shares: pd.DataFrame) -> None:
    """The share inside every cell, readable on its colour."""
    flat = shares.set_axis(range(shares.shape[1]), axis=1).stack()
    y, x = (flat.index.get_level_values(place).tolist() for place in (0, 1))
    ink = [ON_STRONG[choice.dark] if value > 0.6 else choice.theme.ink for value in flat]
    texts = [phrasing.percent(round(float(value), 2)) for value in flat]
    silent(figure, x, y, mode="text", text=texts, textfont={"size": 11, "color": ink})


def shown(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """The table for people."""
    track = track_of(run)
    return readable(
        table,
        "method level layer group filters kept least most share trials",
        level=title_of(track.level.column, track.variants.titles),
        group=layer_of(run)[0],
        filters=table["units"].iat[0],
        share="share kept",
        trials=f"{track.nouns.repeat}s",
    )


def _first_to_go(choice: Choice, level: Level, table: pd.DataFrame) -> tuple[str, str]:
    """At the smallest level: what lost most; at the largest: what still holds."""
    name, levels = words.method_name(choice.method), sorted(table["level"].unique())
    first, last = (table[table["level"] == value] for value in (levels[0], levels[-1]))
    gone, held = first.loc[first["share"].idxmin()], last.loc[last["share"].idxmax()]
    if len(table) > 1 and np.ptp(last["share"]) < 1e-9:
        every = f"every layer keeps {phrasing.percent(held['share'])} of its {held['units']}"
        return f"With {name}, at {level.say(levels[-1])} {every}.", ""
    spread = (
        np.corrcoef(last["layer"], last["share"])[0, 1]
        if len(last) > 2 and last["share"].std() > 0
        else np.nan
    )
    text = (
        f"With {name}, {_named(gone)} keeps least at {level.say(levels[0])} ({_kept(gone)});"
        f" {_named(held)} keeps most at {level.say(levels[-1])} ({_kept(held)})."
    )
    return text, (
        f"{'Early' if spread > 0 else 'Late'} layers lose more." if abs(spread) > 0.5 else ""
    )

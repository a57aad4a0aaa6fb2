"""Accuracy and both gaps against sparsity, every way of fair training beside the others (Figs. 3 and 4)."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.levels import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel, blank, nothing
from engine.report.contract import Measure
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import heading, images_read, level_of, not_the_fair_axis, shown_of

HEIGHT = 330
NO_GAP = "No gap was measured: it takes two subgroups with enough images for a verdict."
BESIDE = 0.006
"""Shares by which points of several lines are moved apart, so that bars do not hide each other."""
SPREAD = 0.05
"""Shares over which all lines are spread at most."""
FEW = 4
"""Lines up to which all have their bars."""


def fair_curve(run: Run, choice: Choice, family: str = "main") -> Panel:
    """A chart per measure (accuracy, accuracy gap, degradation gap) and one of names. `family`: which methods."""
    axis = words.axis_name(choice.measured)
    question = f"As more is cut, who stays accurate, and how far apart are the subgroups of {axis}?"
    table = points(run, choice, family)
    if table.empty:
        return nothing("fair_curve", question, "No model of this audit was measured on this axis.")
    parts = tuple(_column(run, choice, table, measure) for measure in measures(run, choice) if _has(table, measure))
    parts += (_names(run, choice, table),)
    first = table[table["metric"] == f"{_quality(choice)}_gap"]["n"].dropna()
    counted = int(first.max()) if len(first) else int(table["n"].max())
    names = [name for name in dict.fromkeys(table["method"]) if name != "dense"]
    bars = " Bars of the chosen method only; the table has all of them." if len(names) > FEW else ""
    note = (
        f"{phrasing.count(counted, 'test image')}, {track_of(run).repeats_said(run)} per method. {own.INTERVALS_SEEDS} "
        f"{words.NULL_BAND} Grey band: that of the chosen method. Dotted line: the starting model. Sparsity is the "
        "share of filters or of weights, by what a method cuts: the same share is not the same size or speed."
        f"{images_read(run, names)}{bars}"
    )
    return Panel("fair_curve", question, _answer(run, choice, table), None, _readable(run, table), note, parts, True)


def measures(run: Run, choice: Choice) -> tuple[Measure, ...]:
    """What is drawn: how good, how far apart the subgroups are in it, and how unevenly accuracy was lost."""
    track, quality = track_of(run), _quality(choice)
    return (
        Measure(quality, per_axis=False, few=track.items),
        Measure(f"{quality}_gap", few=track.items),
        Measure("degradation_gap", few=track.items),
    )


def _quality(choice: Choice) -> str:
    """Accuracy, or AUC where a reader asks for it."""
    return "auc" if choice.reading == "auc" else "accuracy"


def points(run: Run, choice: Choice, family: str) -> pd.DataFrame:
    """One row per reported variant of the shown methods and measure; ordered by method, then by sparsity."""
    reported, results = lookup.reported(run), lookup.frame(run, "results")
    shown = ["dense", *shown_of(lookup.methods(run), family, choice.method)]
    table = reported[reported["method"].isin(shown)]
    columns = ["variant", "method", "sparsity", "realised", "n_cut", "units", "strength", "parameters_cut", "speedup",
               "degenerate"]  # fmt: skip
    parts = []
    for measure in measures(run, choice):
        axis = choice.measured if measure.per_axis else ""
        rows = results[(results["metric"] == measure.metric) & (results["axis"] == axis)]
        rows = rows[rows["split"] == lookup.REPORTED].drop(columns=["split", "axis", "group", "verdict"])
        parts.append(table[columns].merge(rows, on="variant"))
    found = pd.concat(parts, ignore_index=True)
    found = found[found["value"].notna()]
    place = {name: index for index, name in enumerate(shown)}
    return found.assign(_place=found["method"].map(place)).sort_values(
        ["_place", "sparsity"], kind="stable", ignore_index=True
    )


def _has(table: pd.DataFrame, measure: Measure) -> bool:
    return bool((table["metric"] == measure.metric).any())


def _column(run: Run, choice: Choice, table: pd.DataFrame, measure: Measure) -> go.Figure:
    rows = table[table["metric"] == measure.metric]
    methods = [name for name in dict.fromkeys(table["method"]) if name != "dense"]
    figure = blank(choice, HEIGHT, "share cut (filters or weights)", f"{measure.word.better} is better")
    _null_band(figure, choice, rows)
    dense = rows[rows["method"] == "dense"]
    if len(dense):
        figure.add_hline(y=float(dense["value"].iat[0]), line={"color": choice.theme.ink, "width": 1, "dash": "dot"})
    order = [name for name in methods if name != choice.method] + [name for name in methods if name == choice.method]
    for place, method in enumerate(order):
        shift = (place - (len(order) - 1) / 2) * min(BESIDE, SPREAD / len(order))
        bars = method == choice.method or len(order) <= FEW
        _line(run, figure, choice, measure, rows[rows["method"] == method], method, shift, bars)
    heading(figure, phrasing.sentence(measure.name))
    figure.update_xaxes(tickformat=".0%", nticks=5, tickangle=0, range=[-0.03, _furthest(table)])
    figure.update_yaxes(nticks=6, rangemode="tozero" if measure.per_axis else "normal")
    figure.update_layout(showlegend=False, margin={"t": 30, "r": 8})
    return figure


def _names(run: Run, choice: Choice, table: pd.DataFrame) -> go.Figure:
    """The legend of all charts, as one beside them: a narrow column has no room for it."""
    methods = [name for name in dict.fromkeys(table["method"]) if name != "dense"]
    figure = blank(choice, HEIGHT)
    for place, method in enumerate([*methods, "dense"]):
        style = track_of(run).style(method, choice.dark)
        whole, dense = method in track_of(run).uncut, method == "dense"
        line = {"color": style.colour, "dash": "dot" if dense else style.dash, "width": 1 if dense else 2}
        chosen = method == choice.method
        name = "starting model" if dense else words.method_name(method)
        figure.add_trace(go.Scatter(
            x=[0.0, 0.06, 0.12], y=[place] * 3, mode="lines" if dense else "markers" if whole else "lines+markers",
            line=line, showlegend=False, hoverinfo="skip", cliponaxis=False,
            marker={"symbol": style.symbol, "color": style.colour, "line": _outline(style),
                    "size": [0, 10 if chosen else 8, 0]},
        ))  # fmt: skip
        figure.add_annotation(
            x=0.16, y=place, text=f"<b>{name}</b>" if chosen else name, showarrow=False, xanchor="left",
            yanchor="middle", font={"size": 13},
        )  # fmt: skip
    figure.update_xaxes(visible=False, range=[-0.01, 1])
    figure.update_yaxes(visible=False, range=[max(len(methods), 9) + 0.6, -0.8])
    heading(figure, "Methods")
    figure.update_layout(margin={"t": 30})
    return figure


def _furthest(table: pd.DataFrame) -> float:
    return float(table["realised"].max()) + 0.05


def _null_band(figure: go.Figure, choice: Choice, rows: pd.DataFrame) -> None:
    """The chosen method's null band at each sparsity, from the starting model on."""
    mine = rows[rows["method"].isin(["dense", choice.method]) & rows["null_high"].notna()].sort_values("realised")
    if len(mine) < 2:
        return
    x, low, high = (mine[name].tolist() for name in ("realised", "null_low", "null_high"))
    figure.add_trace(go.Scatter(
        x=x + x[::-1], y=high + low[::-1], fill="toself", fillcolor=choice.theme.band, line={"width": 0}, mode="lines",
        hoverinfo="skip", showlegend=False,
    ))  # fmt: skip


def _line(
    run: Run, figure: go.Figure, choice: Choice, measure: Measure, rows: pd.DataFrame, method: str, shift: float,
    bars: bool,
) -> None:  # fmt: skip
    """One method: cut ones from the smallest sparsity on, models without a cut as a point at 0."""
    if rows.empty:
        return
    style, chosen = track_of(run).style(method, choice.dark), method == choice.method
    error = {"type": "data", "symmetric": False, "array": rows["high"] - rows["value"], "width": 0,
             "arrayminus": rows["value"] - rows["low"], "color": style.colour, "thickness": 1.6}  # fmt: skip
    figure.add_trace(go.Scatter(
        x=rows["realised"] + shift, y=rows["value"], mode="lines+markers", showlegend=False,
        name=words.method_name(method), error_y=error if bars else None, opacity=1 if chosen else 0.85,
        line={"color": style.colour, "width": 3 if chosen else 1.5, "dash": style.dash},
        marker={"symbol": style.symbol, "size": 10 if chosen else 7, "color": style.colour, "line": _outline(style)},
        text=[_hover(run, measure, row) for row in rows.to_dict("records")], hovertemplate="%{text}<extra></extra>",
    ))  # fmt: skip


def _outline(style: Any) -> dict[str, Any]:
    return {"width": 1.8 if "-open" in style.symbol else 0, "color": style.colour}


def _hover(run: Run, measure: Measure, row: dict[str, Any]) -> str:
    text = f"<b>{words.method_name(row['method'])}</b><br>{track_of(run).reached(run, row)}"
    text += f"<br>{measure.name} {measure.with_interval(row)}"
    if math.isfinite(row["null_high"]):
        text += f"<br>null band {measure.span(row['null_low'], row['null_high'])}"
    if math.isfinite(row["delta"]):
        text += f"<br>change {measure.change(row)}"
    flag = track_of(run).flag(row)
    return text + (f"<br>{flag}" if flag else "")


def _answer(run: Run, choice: Choice, table: pd.DataFrame) -> str:
    """The chosen method at the chosen sparsity, then against whom BiFP is told apart."""
    at, name = level_of(run, choice), words.method_name(choice.method)
    here = table[(table["method"] == choice.method) & at_level(table["sparsity"], at)]
    if choice.method in track_of(run).uncut:
        here, at = table[table["method"] == choice.method], 0.0
    if here.empty:
        dense = table[table["method"] == "dense"]
        said = [_said(measure, dense) for measure in measures(run, choice) if _has(dense, measure)]
        rates = _rates(run, choice, "dense")
        return f"The starting model, nothing cut: {'; '.join(said)}.{rates}{not_the_fair_axis(run, choice)}"
    said = [_said(measure, here) for measure in measures(run, choice) if _has(here, measure)]
    where = f"at {phrasing.percent(at)}" if at else "with nothing cut"
    none = "" if (table["metric"] == f"{_quality(choice)}_gap").any() else f" {NO_GAP}"
    more = f"{_rates(run, choice, str(here['variant'].iat[0]))}{_lowest(table, at, f'{_quality(choice)}_gap')}"
    return f"{name} {where}: {'; '.join(said)}.{none}{more}{not_the_fair_axis(run, choice)}"


def _said(measure: Measure, rows: pd.DataFrame) -> str:
    row = rows[rows["metric"] == measure.metric].iloc[0].to_dict()
    text = f"{measure.name} {measure.with_interval(row)}"
    if math.isfinite(row["null_high"]):
        side = phrasing.null_side(row)
        text += f", {side} its null band ({measure.span(row['null_low'], row['null_high'])})"
        text += ", into which its interval reaches" if side == "above" and row["low"] <= row["null_high"] else ""
    return text


def _rates(run: Run, choice: Choice, variant: str) -> str:
    """The gap of true positive rates, which a small accuracy gap can hide where one class is rare in a subgroup."""
    measure = Measure("tpr_gap", few=track_of(run).items)
    row = lookup.result(run, variant, measure.metric, choice.measured)
    if row is None or not math.isfinite(row["value"]):
        return ""
    side = phrasing.null_side(row)
    where = f", {side} its null band (up to {measure.number(row['null_high'])})" if side else ""
    return f" Its {measure.name} is {measure.with_interval(row)}{where}."


def _lowest(table: pd.DataFrame, at: float, metric: str) -> str:
    """Who has the smallest gap of those drawn, as a value only."""
    rows = table[(table["metric"] == metric) & at_level(table["sparsity"], at)]
    rows = rows[rows["method"] != "dense"]
    if len(rows) < 2:
        return ""
    least = rows.loc[rows["value"].idxmin()]
    meet = rows[(rows["low"] <= least["high"]) & (rows["method"] != least["method"])]
    text = f" The smallest {words.metric_name(metric)} shown there is that of {words.method_name(least['method'])}"
    if meet.empty:
        return f"{text}; no other interval meets its own."
    one = "interval meets" if len(meet) == 1 else "intervals meet"
    return f"{text}, but {len(meet)} of {len(rows) - 1} other {one} its own: the next chart compares pair by pair."


def _readable(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    names = {"method": "method", "sparsity": "share asked", "realised": "share cut", "units": "of", "strength": "λ",
             "parameters_cut": "share of parameters cut", "speedup": "speedup by FLOPs", "metric": "measure",
             "value": "value", "low": "low", "high": "high", "null_low": "null low", "null_high": "null high",
             "delta": "change", "delta_low": "change low", "delta_high": "change high", "n": "images",
             "degenerate": "degenerate seeds"}  # fmt: skip
    shown = table.assign(method=table["method"].map(words.method_name), metric=table["metric"].map(words.metric_name))
    return shown[list(names)].rename(columns=names)

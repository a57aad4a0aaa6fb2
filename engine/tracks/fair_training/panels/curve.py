"""Accuracy and both gaps against sparsity, every way of fair training beside the others (Figs. 3
and 4)."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import cost, lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.kinds import add_series, heading, lines
from engine.report.charts.panel import Choice, Panel, blank, nothing
from engine.report.contract import Measure
from engine.report.schema import hovers, readable
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.store.tables import where
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import (
    FILTERS,
    WEIGHTS,
    equal_of,
    flops_said,
    images_read,
    not_the_fair_axis,
    share_said,
    shown_of,
)

HEIGHT = 330
NO_GAP = "No gap was measured: it takes two subgroups with enough images for a verdict."
BESIDE = 0.006
"""Shares by which points of several lines are moved apart, so that bars do not hide each other."""
SPREAD = 0.05
"""Shares over which all lines are spread at most."""
FEW = 4
"""Lines up to which all have their bars."""
COLUMNS = (
    "method sparsity realised units strength parameters_cut speedup metric value low high null_low"
    " null_high group_null_low group_null_high group_null_p delta delta_low delta_high n degenerate"
)


def fair_curve(run: Run, choice: Choice, family: str = "main") -> Panel:
    """A chart per measure (accuracy, accuracy gap, degradation gap) and one of names. `family`:
    which methods."""
    axis = words.axis_name(choice.measured)
    question = f"As more is cut, who stays accurate, and how far apart are the subgroups of {axis}?"
    table = points(run, choice, family)
    if table.empty:
        return nothing("fair_curve", question, "No model of this audit was measured on this axis.")
    parts = tuple(
        _column(run, choice, table, measure)
        for measure in measures(run, choice)
        if _has(table, measure)
    )
    names = _methods(table)
    parts += (_legend(run, choice, names),)
    first = table[table["metric"] == f"{_quality(choice)}_gap"]["n"].dropna()
    counted = int(first.max()) if len(first) else int(table["n"].max())
    bars = " Bars of the chosen method only; the table has all of them." if len(names) > FEW else ""
    note = (
        f"{phrasing.count(counted, 'test image')}, {trials_said(run)} per method."
        f" {own.INTERVALS_SEEDS} "
        f"{words.NULL_BAND} Grey band: that of the chosen method. Dotted line: the starting model. "
        f"{share_said(run)}{flops_said(run, names, lookup.level_of(run, choice))}"
        f"{images_read(run, names)}{bars}"
    )
    answer, mind, rest = _answer(run, choice, table)
    shown = readable(table, COLUMNS, speedup="speedup by FLOPs", n="images")
    return Panel(
        "fair_curve", question, answer, None, shown, note, parts, True, mind=mind, more=rest
    )


def points(run: Run, choice: Choice, family: str) -> pd.DataFrame:
    """One row per reported variant of the shown methods and measure; ordered by method, then by
    sparsity."""
    reported, results = lookup.reported(run), lookup.frame(run, "results")
    shown = ["dense", *shown_of(lookup.methods(run), family, choice.method)]
    columns = [
        "sparsity",
        "realised",
        "n_cut",
        "units",
        "strength",
        "parameters_cut",
        "speedup",
        "degenerate",
    ]
    table = reported.loc[reported["method"].isin(shown), ["variant", "method", *columns]]
    parts = []
    for measure in measures(run, choice):
        axis = choice.measured if measure.per_axis else ""
        rows = where(results, metric=measure.metric, axis=axis)
        rows = rows[rows["split"] == lookup.REPORTED].drop(
            columns=["split", "axis", "group", "verdict"]
        )
        parts.append(table.merge(rows, on="variant"))
    found = pd.concat(parts, ignore_index=True)
    found = found[found["value"].notna()]
    found = found.assign(_place=found["method"].map(shown.index))
    return found.sort_values(["_place", "sparsity"], kind="stable", ignore_index=True)


def _methods(table: pd.DataFrame) -> list[str]:
    return [name for name in dict.fromkeys(table["method"]) if name != "dense"]


def measures(run: Run, choice: Choice) -> tuple[Measure, ...]:
    """What is drawn: how good, how far apart the subgroups are in it, and how unevenly accuracy was
    lost."""
    track, quality = track_of(run), _quality(choice)
    return (
        Measure(quality, per_axis=False, few=track.items),
        Measure(f"{quality}_gap", few=track.items),
        Measure("degradation_gap", few=track.items),
    )


def _quality(choice: Choice) -> str:
    """Accuracy, or AUC where a reader asks for it."""
    return "auc" if choice.reading == "auc" else "accuracy"


def _has(table: pd.DataFrame, measure: Measure) -> bool:
    return bool((table["metric"] == measure.metric).any())


def _column(run: Run, choice: Choice, table: pd.DataFrame, measure: Measure) -> go.Figure:
    rows, track = table[table["metric"] == measure.metric], track_of(run)
    flags = [track.flags.of(row) for row in rows.to_dict("records")]
    seen = "method realised value null delta flag"
    said = hovers(rows.assign(flag=flags), seen, value=measure.name)
    order, dense = _methods(table), rows[rows["method"] == "dense"]
    band = rows[rows["method"].isin(["dense", choice.method]) & rows["null_high"].notna()]
    figure = lines(
        choice,
        rows.assign(hover=said),
        "realised",
        "value",
        {name: lookup.look_of(run, choice, name) for name in order},
        (f"share cut ({equal_of(run)} or weights)", f"{measure.word.better} is better"),
        height=HEIGHT,
        title=phrasing.sentence(measure.name),
        apart=min(BESIDE, SPREAD / max(len(order), 1)),
        bars="- value",
        few=FEW,
        level=(float(dense["value"].iat[0]), "") if len(dense) else None,
        band=band.sort_values("realised"),
        showlegend=False,
    )
    figure.update_xaxes(range=[-0.03, float(table["realised"].max()) + 0.05])
    figure.update_yaxes(nticks=6, rangemode="tozero" if measure.per_axis else "normal")
    figure.update_layout(margin={"t": 30, "r": 8})
    return figure


def _legend(run: Run, choice: Choice, methods: list[str]) -> go.Figure:
    """The legend of all charts, as one beside them: a narrow column has no room for it."""
    figure = blank(choice, HEIGHT)
    for place, method in enumerate([*methods, "dense"]):
        style, uncut = lookup.look_of(run, choice, method), method in track_of(run).ways.uncut
        mode = "lines" if method == "dense" else "markers" if uncut else "lines+markers"
        style = replace(style, dash="dot") if method == "dense" else style
        sample = pd.DataFrame({"x": [0.0, 0.06, 0.12], "y": place, "size": [0, 8, 0]})
        add_series(figure, sample, sample["x"], sample["y"], style, mode=mode, hoverinfo="skip")
        name = "starting model" if method == "dense" else words.method_name(method)
        text = f"<b>{name}</b>" if method == choice.method else name
        where = {"x": 0.16, "y": place, "xanchor": "left", "yanchor": "middle"}
        figure.add_annotation(text=text, font={"size": 13}, showarrow=False, **where)
    figure.update_xaxes(visible=False, range=[-0.01, 1])
    figure.update_yaxes(visible=False, range=[max(len(methods), 9) + 0.6, -0.8])
    heading(figure, "Methods")
    figure.update_layout(margin={"t": 30}, showlegend=False)
    return figure


def _answer(run: Run, choice: Choice, table: pd.DataFrame) -> tuple[str, str, str]:
    """The chosen method at the chosen sparsity; what must be kept in mind; intervals, and who has
    the smallest gap."""
    at, name = lookup.level_of(run, choice), words.method_name(choice.method)
    here = table[(table["method"] == choice.method) & at_level(table["sparsity"], at)]
    if choice.method in track_of(run).ways.uncut:
        here, at = table[table["method"] == choice.method], 0.0
    if here.empty:
        dense = table[table["method"] == "dense"]
        said = [_said(measure, dense) for measure in measures(run, choice) if _has(dense, measure)]
        rates = _rates(run, choice, "dense")
        return (
            f"The starting model, nothing cut: {'; '.join(said)}.",
            not_the_fair_axis(run, choice).strip(),
            rates,
        )
    shown = [measure for measure in measures(run, choice) if _has(here, measure)]
    said, short = ([how(measure, here) for measure in shown] for how in (_said, _in_short))
    where = f"at {phrasing.percent(at)}" if at else "with nothing cut"
    none = "" if (table["metric"] == f"{_quality(choice)}_gap").any() else NO_GAP
    mind = f"{none}{not_the_fair_axis(run, choice)}".strip()
    more = _rates(run, choice, str(here["variant"].iat[0]))
    more += _lowest(table, at, f"{_quality(choice)}_gap")
    return (
        f"{name} {where}: {'; '.join(short)}.",
        mind,
        f"{phrasing.sentence('; '.join(said))}.{more}",
    )


def _in_short(measure: Measure, rows: pd.DataFrame) -> str:
    """A value without its interval, and on which side of its null band it lies."""
    row = rows[rows["metric"] == measure.metric].iloc[0].to_dict()
    side = phrasing.null_side(row) if math.isfinite(row["null_high"]) else ""
    return f"{measure.name} {measure.number(row['value'])}" + (
        f", {side} its null band" if side else ""
    )


def _said(measure: Measure, rows: pd.DataFrame) -> str:
    row = rows[rows["metric"] == measure.metric].iloc[0].to_dict()
    text = f"{measure.name} {measure.with_interval(row)}"
    if math.isfinite(row["null_high"]):
        side = phrasing.null_side(row)
        text += f", {side} its null band ({measure.span(row['null_low'], row['null_high'])})"
        text += (
            ", which its interval reaches"
            if side == "above" and row["low"] <= row["null_high"]
            else ""
        )
    return text


def _rates(run: Run, choice: Choice, variant: str) -> str:
    """The gap of true positive rates, which a small accuracy gap can hide where one class is rare
    in a subgroup."""
    measure = Measure("tpr_gap", few=track_of(run).items)
    row = lookup.result(run, variant, measure.metric, choice.measured)
    if row is None or not math.isfinite(row["value"]):
        return ""
    side = phrasing.null_side(row)
    where = f", {side} its null band (up to {measure.number(row['null_high'])})" if side else ""
    return f" Its {measure.name} is {measure.with_interval(row)}{where}."


def _lowest(table: pd.DataFrame, at: float, metric: str) -> str:
    """Which method has the smallest gap of those drawn, as a value only."""
    rows = table[(table["metric"] == metric) & at_level(table["sparsity"], at)]
    rows = rows[rows["method"] != "dense"]
    if len(rows) < 2:
        return ""
    least = rows.loc[rows["value"].idxmin()]
    meet = rows[(rows["low"] <= least["high"]) & (rows["method"] != least["method"])]
    text = (
        f" {words.method_name(least['method'])} has the smallest"
        f" {words.metric_name(metric)} shown there"
    )
    if meet.empty:
        return f"{text}; no other interval overlaps its own."
    one = "interval overlaps" if len(meet) == 1 else "intervals overlap"
    return (
        f"{text}, but {len(meet)} of {len(rows) - 1} other {one} its own. The next chart compares"
        " pair by pair."
    )


# What a sparse model saves: nothing where single weights are zero.


def saved(run: Run, choice: Choice) -> Panel:
    """The cost panel, with what the units of the method mean for it."""
    variant, panel = lookup.variant_of(run, choice), cost.cost(run, choice)
    if variant.get("units") == WEIGHTS:
        share = phrasing.percent(round(float(variant["parameters_cut"]), 3))
        return replace(
            panel, answer=f"{share} of all parameters are zero.", mind=own.NOT_FASTER, more=""
        )
    if variant["variant"] != "dense" and variant.get("units") != FILTERS:
        return replace(panel, answer="Nothing is cut here, so nothing is saved.", mind="", more="")
    if variant["variant"] == "dense":
        return panel
    return replace(panel, caveat=f"{panel.caveat} The model of the first seed.")

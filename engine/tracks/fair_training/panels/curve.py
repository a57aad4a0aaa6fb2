"""Accuracy and both gaps against sparsity, every way of fair training beside the others (Figs. 3
and 4)."""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.columns import CHANGE, MEASURE, METHOD, NULL, VALUE, readable, titled
from engine.report.charts.marks import (
    add_points,
    bars_of,
    beside,
    chosen_last,
    dot,
    heading,
    hover,
    null_band,
    silent,
)
from engine.report.charts.panel import Choice, Panel, blank, nothing
from engine.report.contract import Measure
from engine.report.palette import Style
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.store.tables import where
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import (
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
    METHOD,
    *titled(sparsity="share asked", realised="share cut", units="of", strength="λ"),
    *titled(parameters_cut="share of parameters cut", speedup="speedup by FLOPs"),
    MEASURE,
    *VALUE,
    *NULL,
    *CHANGE,
    *titled(n="images", degenerate="degenerate seeds"),
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
    shown = readable(table, COLUMNS)
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
    rows = table[table["metric"] == measure.metric]
    figure = blank(
        choice,
        HEIGHT,
        f"share cut ({equal_of(run)} or weights)",
        f"{measure.word.better} is better",
    )
    mine = rows[
        rows["method"].isin(["dense", choice.method]) & rows["null_high"].notna()
    ].sort_values("realised")
    if len(mine) > 1:
        null_band(
            figure, choice, *(mine[name].tolist() for name in ("realised", "null_low", "null_high"))
        )
    dense = rows[rows["method"] == "dense"]
    if len(dense):
        figure.add_hline(
            y=float(dense["value"].iat[0]),
            line={"color": choice.theme.ink, "width": 1, "dash": "dot"},
        )
    order = chosen_last(_methods(table), choice.method)
    for method, shift in zip(
        order, beside(len(order), min(BESIDE, SPREAD / max(len(order), 1))), strict=True
    ):
        bars = method == choice.method or len(order) <= FEW
        _line(run, figure, choice, measure, rows[rows["method"] == method], shift, bars)
    heading(figure, phrasing.sentence(measure.name))
    furthest = float(table["realised"].max()) + 0.05
    figure.update_xaxes(tickformat=".0%", nticks=5, tickangle=0, range=[-0.03, furthest])
    figure.update_yaxes(nticks=6, rangemode="tozero" if measure.per_axis else "normal")
    figure.update_layout(showlegend=False, margin={"t": 30, "r": 8})
    return figure


def _legend(run: Run, choice: Choice, methods: list[str]) -> go.Figure:
    """The legend of all charts, as one beside them: a narrow column has no room for it."""
    figure, where = (
        blank(choice, HEIGHT),
        {"xanchor": "left", "yanchor": "middle", "showarrow": False},
    )
    for place, method in enumerate([*methods, "dense"]):
        style, dense = lookup.look_of(run, choice, method), method == "dense"
        mode = "lines" if dense else "markers" if method in track_of(run).uncut else "lines+markers"
        line = {
            "color": style.colour,
            "dash": "dot" if dense else style.dash,
            "width": 1 if dense else 2,
        }
        chosen = method == choice.method
        marker = dot(style, 10 if chosen else 8, _rim(style))
        marker["size"] = [0, marker["size"], 0]
        silent(
            figure,
            [0.0, 0.06, 0.12],
            [place] * 3,
            mode=mode,
            line=line,
            marker=marker,
            cliponaxis=False,
        )
        name = "starting model" if dense else words.method_name(method)
        text = f"<b>{name}</b>" if chosen else name
        figure.add_annotation(x=0.16, y=place, text=text, font={"size": 13}, **where)
    figure.update_xaxes(visible=False, range=[-0.01, 1])
    figure.update_yaxes(visible=False, range=[max(len(methods), 9) + 0.6, -0.8])
    heading(figure, "Methods")
    figure.update_layout(margin={"t": 30})
    return figure


def _line(
    run: Run,
    figure: go.Figure,
    choice: Choice,
    measure: Measure,
    rows: pd.DataFrame,
    shift: float,
    bars: bool,
) -> None:
    """One method: cut ones from the smallest sparsity on, models without a cut as a point at 0."""
    if rows.empty:
        return
    method = rows["method"].iat[0]
    style, chosen = lookup.look_of(run, choice, method), method == choice.method
    line = {"color": style.colour, "width": 3 if chosen else 1.5, "dash": style.dash}
    look = {
        "mode": "lines+markers",
        "showlegend": False,
        "opacity": 1 if chosen else 0.85,
        "line": line,
    }
    look |= {"error_y": bars_of(rows, style.colour, 1.6)} if bars else {}
    texts, marker = _hovers(run, measure, rows), dot(style, 10 if chosen else 7, _rim(style))
    add_points(
        figure,
        rows["realised"] + shift,
        rows["value"],
        texts,
        marker,
        name=words.method_name(method),
        **look,
    )


def _rim(style: Style) -> float:
    return 1.8 if "-open" in style.symbol else 0


def _hovers(run: Run, measure: Measure, rows: pd.DataFrame) -> list[str]:
    return [
        hover(
            words.method_name(row["method"]),
            track_of(run).reached(run, row),
            f"{measure.name} {measure.with_interval(row)}",
            measure.null_said(row),
            measure.change_said(row),
            track_of(run).flag(row),
        )
        for row in rows.to_dict("records")
    ]


def _answer(run: Run, choice: Choice, table: pd.DataFrame) -> tuple[str, str, str]:
    """The chosen method at the chosen sparsity; what must be kept in mind; intervals, and who has
    the smallest gap."""
    at, name = lookup.level_of(run, choice), words.method_name(choice.method)
    here = table[(table["method"] == choice.method) & at_level(table["sparsity"], at)]
    if choice.method in track_of(run).uncut:
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
            ", into which its interval reaches"
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
        f" The smallest {words.metric_name(metric)} shown there is that of"
        f" {words.method_name(least['method'])}"
    )
    if meet.empty:
        return f"{text}; no other interval meets its own."
    one = "interval meets" if len(meet) == 1 else "intervals meet"
    return (
        f"{text}, but {len(meet)} of {len(rows) - 1} other {one} its own: the next chart compares"
        " pair by pair."
    )

"""At the same share cut, is BiFP's gap smaller, and is it as accurate? BiFP minus every other method, both together."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.levels import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel, blank, nothing, wrapped
from engine.report.contract import Measure
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import (
    MAX_Q,
    bifp_of,
    direction,
    heading,
    images_read,
    level_of,
    not_the_fair_axis,
    seeds_said,
    shown_of,
    stated,
)

ROW = 34
"""Pixels of a method."""
GAP_SAID = {"fell": "clearly smaller than", "rose": "clearly larger than", "open": "not told apart from"}
ACCURACY_SAID = {
    "open": " at an accuracy that cannot be told apart",
    "rose": " at a clearly higher accuracy",
    "fell": ", but at a clearly lower accuracy",
}
"""BiFP's gap and accuracy against another method's."""


def bifp_against(run: Run, choice: Choice, family: str = "all") -> Panel:
    """BiFP minus each other method at the chosen sparsity: a row per method, a column per measure."""
    base, gap = bifp_of(run, choice), _gap(run, choice)
    question = f"At the same share cut, is BiFP's {gap.name} smaller, and is it as accurate?"
    if not base:
        return nothing("bifp_against", question, "This audit has no BiFP to compare the others with.")
    table = differences(run, choice, base, gap, family)
    at, name = level_of(run, choice), words.method_name(base)
    if table.empty:
        why = f"Nothing is compared with {name} at {phrasing.percent(at)} here: no gap was measured, or nothing else trained."
        return nothing("bifp_against", question, why)
    accuracy = Measure("accuracy", few=track_of(run).items)
    order = list(dict.fromkeys(table["method"]))
    parts = (
        _column(run, choice, table, gap, order, f"← smaller gap with {name}"),
        _column(run, choice, table, accuracy, order, f"more accurate with {name} →"),
    )
    note = (
        f"{name} minus the other method at {phrasing.percent(at)}, same test images ({_n(table)}), {seeds_said(run)} each. "
        f"{own.INTERVALS_SEEDS} Filled points: claimed, q (false discovery rate) of at most {MAX_Q:g}; open points: "
        f"the interval holds zero, or q is larger. {own.EQUAL_ACCURACY} BiFP-str is compared with all methods, "
        f"BiFP-uns with those that cut weights. Equal sparsity is not equal speed: filters and weights are "
        "counted each in their own share."
        f"{images_read(run, [base, *order], at)}"
    )
    answer = _answer(run, choice, table, name, gap, at)
    return Panel("bifp_against", question, answer, None, _readable(table), note, parts, True)


def differences(run: Run, choice: Choice, base: str, gap: Measure, family: str = "all") -> pd.DataFrame:
    """BiFP minus the other: one row per method and measure at the chosen sparsity, the largest gap first."""
    if not run.has("arm_differences"):
        return pd.DataFrame()
    table, at = lookup.frame(run, "arm_differences"), level_of(run, choice)
    rows = table[(table["base"] == base) & at_level(table["sparsity"], at) & (table["group"] == "")]
    gaps = rows[(rows["axis"] == choice.measured) & (rows["metric"] == gap.metric)]
    rows = pd.concat([gaps, rows[(rows["axis"] == "") & (rows["metric"] == "accuracy")]], ignore_index=True)
    rows = rows[rows["method"].isin(shown_of(lookup.methods(run), family, choice.method)) & (rows["method"] != base)]
    rows = rows[rows["value"].notna()]
    turned = rows.assign(value=-rows["value"], low=-rows["high"], high=-rows["low"])
    both = [name for name, part in turned.groupby("method") if part["metric"].nunique() == 2]
    turned = turned[turned["method"].isin(both)]
    first = turned[turned["metric"] == gap.metric].sort_values("value")["method"].tolist()
    place = {name: index for index, name in enumerate(first)}
    return turned.assign(_place=turned["method"].map(place)).sort_values(["_place", "metric"], ignore_index=True)


def _gap(run: Run, choice: Choice) -> Measure:
    """The gap the choice reads by, where methods are compared by it."""
    metric = lookup.reading(run, choice).harm.metric
    return Measure(metric if metric in ("accuracy_gap", "degradation_gap") else "accuracy_gap", few=track_of(run).items)


def _n(table: pd.DataFrame) -> str:
    return f"n = {int(table['n'].max()):,}"


def _column(run: Run, choice: Choice, table: pd.DataFrame, measure: Measure, order: list[str], good: str) -> go.Figure:
    """One measure: a point with its interval per method, the largest advantage on top."""
    figure = blank(choice, 110 + ROW * len(order), f"difference of {measure.name}")
    figure.add_vline(x=0, line={"color": choice.theme.ink, "width": 1})
    if choice.method in order:
        place = order.index(choice.method)
        figure.add_hrect(y0=place - 0.5, y1=place + 0.5, fillcolor=choice.theme.band, line_width=0, layer="below")
    for row in table[table["metric"] == measure.metric].to_dict("records"):
        figure.add_trace(_point(run, choice, measure, row, order.index(row["method"])))
    labels = [wrapped(words.method_name(name), 20) for name in order]
    figure.update_yaxes(tickvals=list(range(len(order))), ticktext=labels, showgrid=False,
                        range=[len(order) - 0.4, -0.6])  # fmt: skip
    figure.update_xaxes(showgrid=True, nticks=6, tickangle=0)
    heading(figure, phrasing.sentence(measure.name))
    left = good.startswith("←")
    figure.add_annotation(
        x=0 if left else 1, xref="paper", xanchor="left" if left else "right", y=0, yref="paper", yanchor="bottom",
        text=good, showarrow=False, font={"size": 11, "color": choice.theme.soft},
    )  # fmt: skip
    figure.update_layout(margin={"t": 30}, showlegend=False)
    return figure


def _point(run: Run, choice: Choice, measure: Measure, row: dict[str, Any], y: int) -> go.Scatter:
    style = track_of(run).style(row["method"], choice.dark)
    claimed = direction(row) in ("rose", "fell")
    bars = {"type": "data", "symmetric": False, "array": [row["high"] - row["value"]], "width": 0, "thickness": 2,
            "arrayminus": [row["value"] - row["low"]], "color": style.colour}  # fmt: skip
    text = f"<b>against {words.method_name(row['method'])}</b><br>{measure.name} {stated(measure, row)}"
    text += f"<br>q = {phrasing.number(row['q'])}" if math.isfinite(row["q"]) else ""
    return go.Scatter(
        x=[row["value"]], y=[y], mode="markers", error_x=bars, text=[text], hovertemplate="%{text}<extra></extra>",
        marker={"symbol": "circle" if claimed else "circle-open", "size": 11, "color": style.colour,
                "line": {"width": 2, "color": style.colour}},
        showlegend=False, name=words.method_name(row["method"]),
    )  # fmt: skip


def _answer(run: Run, choice: Choice, table: pd.DataFrame, name: str, gap: Measure, at: float) -> str:
    """Who has a clearly larger gap, and whether that holds at no lower accuracy; then the other way round."""
    wide = {metric: table[table["metric"] == metric].set_index("method") for metric in (gap.metric, "accuracy")}
    metrics = (gap.metric, "accuracy")
    kinds = {
        method: tuple(direction(wide[metric].loc[method].to_dict()) for metric in metrics)
        for method in dict.fromkeys(table["method"])
    }
    parts = []
    for (of_gap, start), (of_accuracy, end) in itertools.product(GAP_SAID.items(), ACCURACY_SAID.items()):
        mine = [method for method, pair in kinds.items() if tuple(map(_kind, pair)) == (of_gap, of_accuracy)]
        if mine:
            parts.append(f"{start} that of {_named(mine)}{end}")
    axis = words.axis_name(choice.measured)
    return f"At {phrasing.percent(at)}, {name}'s {gap.name} of {axis} is {'; '.join(parts)}.{not_the_fair_axis(run, choice)}"


def _kind(of: str) -> str:
    """Clear either way, or open."""
    return of if of in ("fell", "rose") else "open"


def _named(methods: list[str]) -> str:
    return phrasing.listing([words.method_name(method) for method in methods], len(own.METHODS))


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    names = {"base": "method", "method": "against", "sparsity": "share asked", "axis": "axis", "metric": "measure",
             "value": "difference", "low": "low", "high": "high", "p": "p", "q": "q", "n": "images",
             "n_trials": "seeds"}  # fmt: skip
    shown = table.assign(
        base=table["base"].map(words.method_name), method=table["method"].map(words.method_name),
        metric=table["metric"].map(words.metric_name),
        axis=table["axis"].map(lambda axis: words.axis_name(axis) if axis else "all images"),
    )  # fmt: skip
    return shown[list(names)].rename(columns=names)

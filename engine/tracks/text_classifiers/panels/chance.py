"""Does a score choose better than chance? Arms that train nothing among random masks on the same
weights."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.columns import METHOD, Column, group_or, readable, titled
from engine.report.charts.marks import add_points, beside, dot, entry, hover, null_band
from engine.report.charts.panel import Choice, Panel, blank, nothing
from engine.report.contract import Measure
from engine.store.runs import Run
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.lookup import measure_of
from engine.tracks.text_classifiers.words import arm_style

MAX_Q = 0.05
"""Largest false discovery rate at which an arm is said to beat chance."""
APART = 0.012
COLUMNS = (
    METHOD,
    Column("group", "subgroup", group_or("all texts")),
    *titled(sparsity="share asked"),
    Column("metric", "metric", words.metric_name),
    *titled(value="mean of seeds", percentile="percentile"),
    *titled(
        p="p",
        q="q",
        null_mean="random masks, mean",
        null_low="random masks, low",
        null_high="random masks, high",
    ),
    *titled(n_masks="random masks", n_seeds="seeds", n="texts"),
)


def random_masks(run: Run, choice: Choice, group: str = "") -> Panel:
    """Every arm that trains nothing, and the band of random masks, along the share of heads cut."""
    whom = f" for {words.quoted(group)}" if group else ""
    question = f"Does any score choose heads better than chance on the same weights{whom}?"
    table = ranks(run, choice.measured if group else "", group)
    if table.empty:
        return nothing("tickets_chance", question, own.NO_RANDOM_MASKS)
    measure = measure_of(run, group)
    note = (
        f"{own.RANDOM_MASKS} Band: 95 % of {int(table['n_masks'].max())} random masks, mean over"
        f" {phrasing.count(int(table['n_seeds'].max()), 'seed')};"
        f" {phrasing.count(int(table['n'].max()), 'test text')}."
    )
    (answer, rest), figure = _answer(run, choice, table, measure), _figure(choice, table, measure)
    return Panel(
        "tickets_chance", question, answer, figure, readable(table, COLUMNS), note, more=rest
    )


def ranks(run: Run, axis: str = "", group: str = "") -> pd.DataFrame:
    """Rows of random_ranks about all texts or one group, by share and percentile; empty in runs
    that have none."""
    if not run.has("random_ranks"):
        return pd.DataFrame()
    table = lookup.frame(run, "random_ranks")
    rows = table[(table["axis"] == axis) & (table["group"] == group)]
    return rows.sort_values(["sparsity", "percentile"], ascending=[True, False], ignore_index=True)


def _figure(choice: Choice, table: pd.DataFrame, measure: Measure) -> go.Figure:
    figure = blank(choice, 380, "share of heads cut", measure.title)
    band = table.drop_duplicates("sparsity")
    null_band(
        figure, choice, *(band[name].tolist() for name in ("sparsity", "null_low", "null_high"))
    )
    line = {"color": choice.theme.soft, "dash": "dot", "width": 1.4}
    figure.add_scatter(
        x=band["sparsity"],
        y=band["null_mean"],
        mode="lines",
        line=line,
        hoverinfo="skip",
        name="random masks: mean and 95 %",
    )
    names = list(dict.fromkeys(table["method"]))
    for method, shift in zip(names, beside(len(names), APART), strict=True):
        rows, style = table[table["method"] == method], arm_style(method, choice.dark)
        hovers = [_hover(row, measure) for row in rows.to_dict("records")]
        marker = dot(style, 13 if method == choice.method else 9, 1.6)
        add_points(
            figure, rows["sparsity"] + shift, rows["value"], hovers, marker, showlegend=False
        )
        entry(figure, words.method_name(method), mode="markers", marker=dot(style, 9, 1.6))
    figure.update_xaxes(tickformat=".0%", nticks=6, tickangle=0)
    figure.update_yaxes(nticks=7)
    figure.update_layout(height=380 + 20 * ((len(names) + 2) // 2))
    return figure


def _hover(row: dict[str, Any], measure: Measure) -> str:
    lines = (
        f"{measure.name} {measure.number(row['value'])}",
        f"{_place(row)} of {row['n_masks']} random masks",
        f"p = {phrasing.number(row['p'])}, q = {phrasing.number(row['q'])}",
    )
    return hover(
        f"{words.method_name(row['method'])}, {phrasing.percent(row['sparsity'])} asked", *lines
    )


def _place(row: dict[str, Any]) -> str:
    """E.g. "97th percentile"."""
    at = round(100 * row["percentile"])
    ending = "th" if 10 < at % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(at % 10, "th")
    return f"{at}{ending} percentile"


def _answer(run: Run, choice: Choice, table: pd.DataFrame, measure: Measure) -> tuple[str, str]:
    """At the chosen level, or the middle one: who beats chance; then each arm's percentile and
    p-value."""
    level = lookup.level_of(run, choice)
    known = sorted(table["sparsity"].unique())
    level = level if at_level(table["sparsity"], level).any() else known[len(known) // 2]
    rows = table[at_level(table["sparsity"], level)].to_dict("records")
    better = [words.method_name(row["method"]) for row in rows if row["q"] <= MAX_Q]
    many = f"{rows[0]['n_masks']} random masks"
    verb = "stands" if len(better) == 1 else "stand"
    start = (
        f"{phrasing.listing(better)} {verb} above what {many} give"
        if better
        else f"no arm can be told from {many}"
    )
    each = [
        f"{words.method_name(row['method'])} {_place(row)} (p = {phrasing.number(row['p'])})"
        for row in rows
    ]
    at = f"With {phrasing.percent(level)} of heads cut and nothing trained again"
    band = f"random masks: {measure.name} {measure.number(rows[0]['null_mean'])}"
    band += (
        f", 95 % from {measure.number(rows[0]['null_low'])} to"
        f" {measure.number(rows[0]['null_high'])}"
    )
    return f"{at} {start} (q at most {MAX_Q:g}).", f"{phrasing.sentence('; '.join(each))}; {band}."

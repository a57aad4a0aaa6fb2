"""What it costs to hold a cut to what any loader reads: the same method with and without the
constraint."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.columns import Column, readable, titled
from engine.report.charts.marks import add_points, bars_of, dot, heading
from engine.report.charts.panel import Choice, Panel, blank, nothing
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.language_models import words as own
from engine.tracks.language_models.panels.arms import sizes

QUESTION = (
    "What does it cost to cut as many heads in every layer, so that any loader reads the result?"
)


def price_of_even(run: Run, choice: Choice) -> Panel:
    """Changes of bias and of perplexity of the chosen method, as it is and held to even cuts."""
    table = sizes(run, choice)
    pairs = [
        name for name in table["method"].unique() if f"{name}{own.EVEN}" in set(table["method"])
    ]
    if not pairs:
        return nothing(
            "price_of_even",
            QUESTION,
            "No level takes a whole group of heads from every layer here.",
        )
    base = choice.method.removesuffix(own.EVEN)
    base = base if base in pairs else track_of(run).order(pairs)[0]
    mine = table[table["method"].isin((base, f"{base}{own.EVEN}"))].reset_index(drop=True)
    parts = tuple(_figure(run, choice, mine, name, ends) for name, ends in _PARTS)
    columns = (
        Column("method", "method", words.method_name),
        *titled(
            sparsity="share asked",
            realised="share cut",
            bytes="share of bytes",
            delta="change of bias",
        ),
        *titled(delta_low="low", delta_high="high", delta_q="change of perplexity"),
        *titled(delta_low_q="low of perplexity", delta_high_q="high of perplexity"),
    )
    note = lookup.caveat(run, lookup.harm(run, "dense", choice), more=own.EVEN_MEANS)
    return Panel(
        "price_of_even", QUESTION, _answer(mine, base), None, readable(mine, columns), note, parts
    )


_PARTS = (("change of bias", ""), ("change of perplexity", "_q"))


def _figure(run: Run, choice: Choice, table: pd.DataFrame, name: str, ends: str) -> go.Figure:
    figure = blank(choice, 380, "share of heads cut", name)
    figure.add_hline(y=0, line={"color": choice.theme.ink, "width": 1, "dash": "dot"})
    for method in track_of(run).order(table["method"].unique()):
        mine, style = table[table["method"] == method], track_of(run).style(method, choice.dark)
        texts = [_hover(run, row) for row in mine.to_dict("records")]
        bars = bars_of(
            mine, style.colour, 1, f"delta{ends}", f"delta_low{ends}", f"delta_high{ends}"
        )
        rim = {"line": {"width": 2}} if "-open" in style.symbol else {}
        add_points(
            figure,
            mine["realised"],
            mine[f"delta{ends}"],
            texts,
            dot(style, 9) | rim,
            error_y=bars,
            mode="lines+markers",
            line={"color": style.colour, "width": 2, "dash": style.dash},
            name=words.method_name(method),
            showlegend=True,
        )
    figure.update_xaxes(tickformat=".0%", nticks=5, tickangle=0)
    figure.update_yaxes(nticks=6)
    heading(figure, phrasing.sentence(name))
    figure.update_layout(margin={"t": 40}, legend={"y": -0.25, "yanchor": "top"}, height=420)
    return figure


def _hover(run: Run, row: dict[str, Any]) -> str:
    return f"<b>{lookup.variant_label(run, row)}</b><br>{phrasing.percent(row['realised'])} cut"


def _answer(table: pd.DataFrame, base: str) -> str:
    """Both at the largest level at which there is an even cut."""
    even = table[table["method"] != base]
    held = even.sort_values(["sparsity", "seed"]).iloc[-1]
    free = table[
        (table["method"] == base)
        & (table["sparsity"] == held["sparsity"])
        & (table["seed"] == held["seed"])
    ]
    name = words.method_name(base)
    if free.empty:
        return f"{name} was measured held to it only."
    row = free.iloc[0]
    bias, text = (
        [
            phrasing.change({one: each[f"{one}{ends}"] for one in _ENDS}, bool(ends))
            for each in (held, row)
        ]
        for ends in ("", "_q")
    )
    return (
        f"{name} asked for {phrasing.percent(held['sparsity'])}: held to it,"
        f" {phrasing.percent(held['realised'])} of the heads are cut and bias changes by {bias[0]},"
        f" perplexity by {text[0]}; as it is, {phrasing.percent(row['realised'])}, {bias[1]} and"
        f" {text[1]}."
    )


_ENDS = ("delta", "delta_low", "delta_high")
PANELS = (price_of_even,)

"""Cuts of heads beside other ways to make a model smaller: at as many bytes, in as much time, and token by token."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.columns import Column, readable, titled
from engine.report.charts.headline import null_warning
from engine.report.charts.marks import add_points, bars_of, dot, heading
from engine.report.charts.panel import Choice, Panel, blank, needs_log, nothing
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.language_models import words as own

SAID = 4
"""Other ways that are named in the answer, those nearest in bytes or time."""
NEAR = 0.05
"""Shares of the dense model's bytes, or of its time, that count as the same."""


def by_bytes(run: Run, choice: Choice) -> Panel:
    """Change of bias and of perplexity against bytes, every way."""
    question = f"For as many bytes, what does each way cost in bias of {words.axis_name(choice.measured)}?"
    note = f"Bytes: zeros left out where a way makes zeros, else as stored to be run. {own.ZEROS} {own.COMPRESSED}"
    return _weighed(run, choice, ("by_bytes", question, "bytes", "share of the dense model\u2019s bytes"), note)


def by_time(run: Run, choice: Choice) -> Panel:
    """The same against measured time."""
    question = f"In as much time, what does each way cost in bias of {words.axis_name(choice.measured)}?"
    note = f"Time: measured in turn with the dense model, median of paired ratios. {own.ROUNDED} {own.ZEROS}"
    return _weighed(run, choice, ("by_time", question, "time", "share of the dense model\u2019s time"), note)


def _weighed(run: Run, choice: Choice, named: tuple[str, str, str, str], note: str) -> Panel:
    """named: key, question, what is compared, title of its axis."""
    key, question, what, title = named
    table = sizes(run, choice)
    if len(table) < 2:
        return nothing(key, question, "Bytes and time of fewer than two variants were measured for this choice.")
    parts = []
    for place, (name, ends) in enumerate((("change of bias", ""), ("change of perplexity", "_q"))):
        figure = _figure(run, choice, table, (what, title, name, ends))
        heading(figure, phrasing.sentence(name))
        figure.update_layout(showlegend=not place)
        parts.append(figure)
    answer = _answer(run, choice, table, what)
    columns = (
        Column("method", "method", words.method_name),
        *titled(sparsity="share asked", bytes="share of bytes", time="share of time", delta="change of bias"),
        *titled(delta_low="low", delta_high="high", delta_q="change of perplexity"),
        *titled(delta_low_q="low of perplexity", delta_high_q="high of perplexity"),
    )
    caveat = lookup.caveat(run, lookup.bias(run, "dense", choice), more=note)
    shown = readable(table, columns)
    return Panel(key, question, answer, None, shown, caveat, tuple(parts), mind=null_warning(run, choice))


def sizes(run: Run, choice: Choice) -> pd.DataFrame:
    """One row per reported variant but the dense model: changes of bias (delta) and of perplexity (delta_q) with ends,
    bytes and time as shares of the dense model's."""
    variants = lookup.of_axis(run, lookup.reported(run), choice.axis)
    results, costs = lookup.frame(run, "results"), lookup.frame(run, "costs")
    results = results[results["split"] == lookup.REPORTED][["variant", "metric", "axis", *_ENDS]]
    bias = results[(results["metric"] == f"bias:{choice.reading}") & (results["axis"] == choice.measured)]
    text = results[results["metric"] == "perplexity"]
    table = variants[lookup.is_change(variants)].merge(bias[["variant", *_ENDS]], on="variant")
    table = table.merge(text[["variant", *_ENDS]], on="variant", suffixes=("", "_q"))
    table = table.merge(costs.rename(columns={"bytes": "stored"}), on="variant")
    dense = costs[costs["variant"] == "dense"]
    if dense.empty:
        return table.iloc[:0]
    packed = table.get("packed_bytes", pd.Series(math.nan, index=table.index)).fillna(table["stored"])
    table = table.assign(bytes=packed / float(dense["bytes"].iat[0]), time=1 / table["speedup"])
    return table.dropna(subset=["delta", "delta_q"]).sort_values(["method", "sparsity", "seed"], ignore_index=True)


_ENDS = ("delta", "delta_low", "delta_high")


def _figure(run: Run, choice: Choice, table: pd.DataFrame, named: tuple[str, str, str, str]) -> go.Figure:
    """named: column of the axis, its title, what is drawn, the suffix of its columns."""
    what, title, name, ends = named
    track, y = track_of(run), f"delta{ends}"
    figure = blank(choice, 430, title, name)
    figure.add_hline(y=0, line={"color": choice.theme.ink, "width": 1, "dash": "dot"})
    for method in track.order(table["method"].unique()):
        mine, style = table[table["method"] == method].sort_values(what), lookup.look_of(run, choice, method)
        strong = method == choice.method
        marker = dot(style, 11 if strong else 7) | {"symbol": style.symbol}
        bars = bars_of(mine, style.colour, 2 if strong else 1, y, f"delta_low{ends}", f"delta_high{ends}")
        texts = [_hover(run, row, what) for row in mine.to_dict("records")]
        line = {"color": style.colour, "width": 2 if strong else 1, "dash": style.dash}
        add_points(figure, mine[what], mine[y], texts, marker, error_y=bars, mode="lines+markers", line=line,
                   name=words.method_name(method), showlegend=True)  # fmt: skip
    figure.update_xaxes(tickformat=".0%", nticks=6, tickangle=0)
    figure.update_yaxes(nticks=6)
    figure.update_layout(legend={"font": {"size": 11}, "y": -0.25, "yanchor": "top"}, height=470, margin={"t": 40})
    return figure


def _hover(run: Run, row: dict[str, Any], what: str) -> str:
    return "<br>".join((
        f"<b>{lookup.variant_label(run, row)}</b>",
        f"{phrasing.percent(row[what])} of the {what}",
        f"bias {phrasing.change(row)}",
        f"perplexity {phrasing.change({name: row[f'{name}_q'] for name in _ENDS}, True)}",
    ))  # fmt: skip


def _answer(run: Run, choice: Choice, table: pd.DataFrame, what: str) -> str:
    """The chosen variant, and every other way that takes about as much."""
    variant = lookup.variant_of(run, choice)["variant"]
    mine = table[table["variant"] == variant]
    if mine.empty:
        return "Choose a variant that changes the model: the others are then compared at what it takes."
    row = mine.iloc[0]
    near = table[(table[what] - row[what]).abs() <= NEAR].assign(far=(table[what] - row[what]).abs())
    others = near[near["method"] != row["method"]].sort_values("far").drop_duplicates("method")
    first = (
        f"{phrasing.sentence(lookup.variant_label(run, row.to_dict()))}: {phrasing.percent(row[what])} of the {what}"
    )
    first = f"{first}, bias {phrasing.change(row)}"
    if others.empty:
        return f"{first}. No other way takes as much, give or take {phrasing.percent(NEAR)}."
    said = [f"{lookup.variant_label(run, one)} {phrasing.change(one)}" for one in others.head(SAID).to_dict("records")]
    more = f"; {len(others) - SAID} more in the table" if len(others) > SAID else ""
    return f"{first}. At as much, give or take {phrasing.percent(NEAR)}: {'; '.join(said)}{more}."


def divergence(run: Run, choice: Choice) -> Panel:
    """How far every variant's next tokens are from the dense model's."""
    question = "How far are next tokens from the dense model\u2019s?"
    table = _diverging(run, choice)
    if table.empty:
        return nothing("divergence", question, "Divergence per token was not measured in this run.")
    figure = blank(choice, 420, "share of the tokens whose likeliest next token changed", "divergence per token (nats)")
    for method in track_of(run).order(table["method"].unique()):
        mine, style = table[table["method"] == method].sort_values("value_f"), lookup.look_of(run, choice, method)
        strong = method == choice.method
        texts = [f"<b>{lookup.variant_label(run, row)}</b><br>{phrasing.number(row['value'])} nats<br>"
                 f"{phrasing.percent(row['value_f'])} flipped" for row in mine.to_dict("records")]  # fmt: skip
        marker = dot(style, 11 if strong else 7) | {"symbol": style.symbol}
        add_points(figure, mine["value_f"], mine["value"], texts, marker, error_y=bars_of(mine, style.colour, 1),
                   name=words.method_name(method), showlegend=True)  # fmt: skip
    figure.update_xaxes(tickformat=".0%", nticks=6, tickangle=0)
    is_log = needs_log(table["value"].tolist())
    figure.update_yaxes(nticks=6, type="log" if is_log else "linear")
    figure.update_layout(legend={"font": {"size": 11}, "y": -0.25, "yanchor": "top"}, height=470)
    ordered = table.sort_values("value")
    least, most = (ordered.iloc[place].to_dict() for place in (0, -1))
    answer = (
        f"Least with {lookup.variant_label(run, least)} ({phrasing.number(least['value'])} nats, "
        f"{phrasing.percent(least['value_f'])} of the likeliest tokens changed), most with "
        f"{lookup.variant_label(run, most)} ({phrasing.number(most['value'])} nats, "
        f"{phrasing.percent(most['value_f'])})."
    )
    columns = (Column("method", "method", words.method_name), *titled(sparsity="share asked", value="nats per token",
               low="low", high="high", value_f="flipped", n="tokens"))  # fmt: skip
    note = f"{own.METRICS['divergence'].definition} {own.INTERVALS_PERPLEXITY}"
    return Panel("divergence", question, answer, figure, readable(table, columns), note)


def _diverging(run: Run, choice: Choice) -> pd.DataFrame:
    """One row per reported variant with its divergence (value, low, high) and share of flipped tokens (value_f)."""
    results = lookup.frame(run, "results")
    ends = ["variant", "value", "low", "high", "n"]
    kl, flipped = (results[results["metric"] == metric][ends] for metric in ("divergence", "flipped"))
    variants = lookup.of_axis(run, lookup.reported(run), choice.axis)
    table = variants.merge(kl, on="variant").merge(flipped[["variant", "value"]], on="variant", suffixes=("", "_f"))
    return table.sort_values(["method", "sparsity", "seed"], ignore_index=True)


PANELS = (by_bytes, by_time, divergence)

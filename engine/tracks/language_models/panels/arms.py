"""Cuts of heads beside other ways to make a model smaller: at as many bytes, in as much time, and
token by token."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.columns import Column, readable, titled
from engine.report.charts.headline import null_warning
from engine.report.charts.marks import add_points, bars_of, chosen_last, dot, heading
from engine.report.charts.panel import Choice, Panel, blank, needs_log, nothing
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.language_models import words as own
from engine.tracks.language_models.panels import pairs
from engine.tracks.language_models.panels.pairs import NEAR

FAR = 3.0
"""Times the dense perplexity from which on the scale is logarithmic."""


def by_bytes(run: Run, choice: Choice) -> Panel:
    """Change of bias and of perplexity against bytes, every way."""
    question = f"For as many bytes, what does each way cost in {_harm(run, choice)}?"
    note = (
        f"Bytes: zeros left out where a way makes zeros, else as stored to be run. {own.ZEROS}"
        f" {own.COMPRESSED}"
    )
    return _weighed(
        run, choice, ("by_bytes", question, "bytes", "share of the dense model\u2019s bytes"), note
    )


def by_time(run: Run, choice: Choice) -> Panel:
    """The same against measured time."""
    question = f"In as much time, what does each way cost in {_harm(run, choice)}?"
    note = (
        f"Time: measured in turn with the dense model, median of paired ratios. {own.ROUNDED}"
        f" {own.ZEROS}"
    )
    return _weighed(
        run, choice, ("by_time", question, "time", "share of the dense model\u2019s time"), note
    )


def _harm(run: Run, choice: Choice) -> str:
    return lookup.reading(run, choice).harm.of(words.axis_name(choice.measured))


def _weighed(run: Run, choice: Choice, named: tuple[str, str, str, str], note: str) -> Panel:
    """named: key, question, what is compared, title of its axis."""
    key, question, what, title = named
    table = sizes(run, choice)
    if len(table) < 2:
        return nothing(
            key,
            question,
            "Bytes and time of fewer than two variants were measured for this choice.",
        )
    parts = tuple(_figure(run, choice, table, (what, title), about) for about in _ABOUT)
    chosen = _chosen(run, choice, table)
    found = pairs.pairs_of(run, choice, table, chosen, what) if chosen else None
    answer, more = _answer(run, table, chosen, found, what)
    columns = (
        Column("method", "method", words.method_name),
        *titled(
            sparsity="level", realised="share reached", bytes="share of bytes", time="share of time"
        ),
        *titled(delta="change of bias", delta_low="low", delta_high="high"),
        *(pairs.COLUMNS if found else ()),
        *titled(ratio="perplexity over dense", ratio_low="low of it", ratio_high="high of it"),
    )
    said = f"{note} {pairs.NOTE}" if found else note
    caveat = lookup.caveat(run, lookup.harm(run, "dense", choice), more=said)
    shown = readable(pairs.with_pairs(table, found), columns)
    return Panel(
        key, question, answer, None, shown, caveat, parts, mind=null_warning(run, choice), more=more
    )


@dataclass(frozen=True)
class _About:
    """One of the two charts: the column that is drawn, its name, where nothing changed."""

    column: str
    name: str
    unchanged: float


_ABOUT = (
    _About("delta", "change of bias", 0.0),
    _About("ratio", "perplexity, times the dense model\u2019s", 1.0),
)


def sizes(run: Run, choice: Choice) -> pd.DataFrame:
    """One row per reported variant but the dense model: changes of bias (delta) and of perplexity
    (delta_q) with ends, perplexity over the dense model's (ratio) with its ends, bytes and time as
    shares of the dense model's.
    """
    variants = lookup.of_axis(run, lookup.reported(run), choice.axis)
    results, costs = lookup.frame(run, "results"), lookup.frame(run, "costs")
    results = results[results["split"] == lookup.REPORTED][
        ["variant", "metric", "axis", "value", *_ENDS]
    ]
    harm = lookup.reading(run, choice).harm
    axis = choice.measured if harm.per_axis else ""
    bias = results[(results["metric"] == harm.metric) & (results["axis"] == axis)]
    text = results[results["metric"] == "perplexity"]
    table = variants[lookup.is_change(variants)].merge(
        bias[["variant", "value", *_ENDS]], on="variant"
    )
    table = table.merge(text[["variant", "value", *_ENDS]], on="variant", suffixes=("", "_q"))
    table = table.merge(costs.rename(columns={"bytes": "stored"}), on="variant")
    dense = costs[costs["variant"] == "dense"]
    if dense.empty:
        return table.iloc[:0]
    packed = table.get("packed_bytes", pd.Series(math.nan, index=table.index)).fillna(
        table["stored"]
    )
    table = table.assign(bytes=packed / float(dense["bytes"].iat[0]), time=1 / table["speedup"])
    was = table["value_q"] - table["delta_q"]
    for end in ("", "_low", "_high"):
        table[f"ratio{end}"] = 1 + table[f"delta{end}_q"] / was
    return table.dropna(subset=["delta", "delta_q"]).sort_values(
        ["method", "sparsity", "seed"], ignore_index=True
    )


_ENDS = ("delta", "delta_low", "delta_high")


def _figure(
    run: Run, choice: Choice, table: pd.DataFrame, named: tuple[str, str], about: _About
) -> go.Figure:
    """named: column of the horizontal axis, and its title. Methods are joined by lines where they
    differ in it."""
    (what, title), track = named, track_of(run)
    figure = blank(choice, 400, title, about.name)
    figure.add_hline(y=about.unchanged, line={"color": choice.theme.ink, "width": 1, "dash": "dot"})
    order = chosen_last(track.order(table["method"].unique()), choice.method)
    for method in order:
        mine, style = (
            table[table["method"] == method].sort_values(what),
            lookup.look_of(run, choice, method),
        )
        strong, value = method == choice.method, about.column
        rim = {"line": {"width": 2}} if "-open" in style.symbol else {}
        bars = bars_of(
            mine, style.colour, 2 if strong else 1, value, f"{value}_low", f"{value}_high"
        )
        texts = [_hover(run, row, what) for row in mine.to_dict("records")]
        look = {"mode": "lines+markers" if what == "bytes" else "markers", "error_y": bars}
        look |= {"line": {"color": style.colour, "width": 2 if strong else 1, "dash": style.dash}}
        add_points(
            figure,
            mine[what],
            mine[about.column],
            texts,
            dot(style, 11 if strong else 7) | rim,
            **look,
            name=words.method_name(method),
            showlegend=True,
        )
    is_log = about.unchanged > 0 and table[about.column].max() > FAR
    figure.update_xaxes(tickformat=".0%", nticks=6, tickangle=0)
    figure.update_yaxes(nticks=6, type="log" if is_log else "linear")
    heading(figure, phrasing.sentence(about.name))
    first = about is _ABOUT[0]
    legend = {"font": {"size": 11}, "y": -0.25, "yanchor": "top"}
    height = 400 + (20 * math.ceil(len(order) / 2) if first else 0)
    figure.update_layout(legend=legend, showlegend=first, height=height, margin={"t": 40})
    return figure


def _hover(run: Run, row: dict[str, Any], what: str) -> str:
    return "<br>".join(
        (
            f"<b>{lookup.variant_label(run, row)}</b>",
            f"{phrasing.percent(row[what])} of the {what}",
            f"bias {phrasing.change(row)}",
            (
                f"perplexity {row['ratio']:.3g} times ({row['ratio_low']:.3g} to"
                f" {row['ratio_high']:.3g})"
            ),
        )
    )


def _chosen(run: Run, choice: Choice, table: pd.DataFrame) -> dict[str, Any] | None:
    """The row of the chosen variant; None for the dense model."""
    mine = table[table["variant"] == lookup.variant_of(run, choice)["variant"]]
    return None if mine.empty else mine.iloc[0].to_dict()


def _answer(
    run: Run, table: pd.DataFrame, row: dict[str, Any] | None, found: pairs.Pairs | None, what: str
) -> tuple[str, str]:
    """The chosen variant, and every other way that takes about as much beside the cut of heads;
    then what each does to the dense model's bias, and each difference."""
    if row is None:
        return (
            (
                "Choose a variant that changes the model: the others are then compared at what it"
                " takes."
            ),
            "",
        )
    label = phrasing.sentence(lookup.variant_label(run, row))
    first = (
        f"{label}{',' if ',' in label else ''} takes {phrasing.percent(row[what])} of the {what} "
    )
    first += f"and {_VERBS[phrasing.direction(row)]} the bias ({phrasing.change(row)})."
    near = pairs.closest(table, row, what)
    more = _beside_dense(run, near[near["pair_as_much"]].to_dict("records"))
    if found is None:
        return f"{first} {more}", ""
    return f"{first} {pairs.told(run, found, what)}", f"{more} {pairs.each(run, found)}"


def _beside_dense(run: Run, others: list[dict[str, Any]]) -> str:
    """What each way that takes as much does to the dense model's bias."""
    start = f"At as much, give or take {phrasing.percent(NEAR)}, beside the dense model\u2019s bias"
    if not others:
        return f"No other way takes as much, give or take {phrasing.percent(NEAR)}."
    said = []
    for kind, verb in _VERBS.items():
        names = [
            lookup.variant_label(run, one) for one in others if phrasing.direction(one) == kind
        ]
        said += [f"{'; '.join(names)}: {verb} it"] if names else []
    return f"{start}: {'. '.join(map(phrasing.sentence, said))}."


_VERBS = {
    "fell": "lowers",
    "rose": "raises",
    "unclear": "does not clearly change",
    "unknown": "moves",
}


def divergence(run: Run, choice: Choice) -> Panel:
    """How far every variant's next tokens are from the dense model's."""
    question = "How far are next tokens from the dense model\u2019s?"
    table = _diverging(run, choice)
    if table.empty:
        return nothing("divergence", question, "Divergence per token was not measured in this run.")
    figure = blank(
        choice,
        420,
        "share of the tokens whose likeliest next token changed",
        "divergence per token (nats)",
    )
    for method in track_of(run).order(table["method"].unique()):
        mine, style = (
            table[table["method"] == method].sort_values("value_f"),
            lookup.look_of(run, choice, method),
        )
        strong = method == choice.method
        texts = [
            f"<b>{lookup.variant_label(run, row)}</b><br>{phrasing.number(row['value'])} nats<br>"
            f"{phrasing.percent(row['value_f'])} flipped"
            for row in mine.to_dict("records")
        ]
        marker = dot(style, 11 if strong else 7) | {"symbol": style.symbol}
        add_points(
            figure,
            mine["value_f"],
            mine["value"],
            texts,
            marker,
            error_y=bars_of(mine, style.colour, 1),
            name=words.method_name(method),
            showlegend=True,
        )
    figure.update_xaxes(tickformat=".0%", nticks=6, tickangle=0)
    is_log = needs_log(table["value"].tolist())
    figure.update_yaxes(nticks=6, type="log" if is_log else "linear", exponentformat="power")
    figure.update_layout(legend={"font": {"size": 11}, "y": -0.25, "yanchor": "top"}, height=470)
    ordered = table.sort_values("value")
    least, most = (ordered.iloc[place].to_dict() for place in (0, -1))
    answer = (
        f"Least with {lookup.variant_label(run, least)} ({phrasing.number(least['value'])} nats, "
        f"{phrasing.percent(least['value_f'])} of the likeliest tokens changed), most with "
        f"{lookup.variant_label(run, most)} ({phrasing.number(most['value'])} nats, "
        f"{phrasing.percent(most['value_f'])})."
    )
    columns = (
        Column("method", "method", words.method_name),
        *titled(
            sparsity="share asked",
            value="nats per token",
            low="low",
            high="high",
            value_f="flipped",
            n="tokens",
        ),
    )
    note = f"{own.METRICS['divergence'].definition} {own.INTERVALS_PERPLEXITY}"
    return Panel("divergence", question, answer, figure, readable(table, columns), note)


def _diverging(run: Run, choice: Choice) -> pd.DataFrame:
    """One row per reported variant with its divergence (value, low, high) and share of flipped
    tokens (value_f)."""
    results = lookup.frame(run, "results")
    ends = ["variant", "value", "low", "high", "n"]
    kl, flipped = (
        results[results["metric"] == metric][ends] for metric in ("divergence", "flipped")
    )
    variants = lookup.of_axis(run, lookup.reported(run), choice.axis)
    table = variants.merge(kl, on="variant").merge(
        flipped[["variant", "value"]], on="variant", suffixes=("", "_f")
    )
    return table.sort_values(["method", "sparsity", "seed"], ignore_index=True)


PANELS = (by_bytes, by_time, divergence)

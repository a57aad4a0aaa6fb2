"""Perplexity against bias: what less bias costs, for every method, sparsity and gamma."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine import words
from engine.export import say
from engine.export.palette import method_colour, method_symbol
from engine.export.panels import lookup
from engine.export.panels.base import Choice, Panel, blank, needs_log, nothing
from engine.export.panels.headline import null_warning
from engine.metrics.pareto import front
from engine.store.runs import Run


def pareto(run: Run, choice: Choice, split: str = lookup.REPORTED) -> Panel:
    """Every variant as a point, both axes lower is better. split="validation" shows every gamma that was tried.

    Each point carries its variant id as customdata[0].
    """
    axis = words.axis_name(choice.measured)
    question = f"What does less bias of {axis} cost in perplexity, and which variants are best at both?"
    table = points(run, choice, split)
    if len(table) < 2:
        return nothing("pareto", question, f"Fewer than two variants have bias and perplexity on {split} prompts.")
    figure = _figure(run, choice, table, split)
    tried = "every γ that was tried" if split == "validation" else "the γ chosen on validation"
    more = f"Shows {tried}. The front is read from point values; intervals overlap more than it suggests."
    answer = f"{null_warning(run, choice)} {_answer(run, choice, table)}".strip()
    note = lookup.caveat(run, lookup.bias(run, "dense", choice, split), split, more)
    return Panel("pareto", question, answer, figure, _readable(table), note)


def points(run: Run, choice: Choice, split: str) -> pd.DataFrame:
    """One row per variant of this target axis or none: bias and perplexity with intervals, on the front or not."""
    results, variants = lookup.frame(run, "results"), lookup.frame(run, "variants")
    rows = results[results["split"] == split]
    columns = ["variant", "value", "low", "high", "null_low", "null_high", "n", "delta", "delta_low", "delta_high"]
    bias = rows[(rows["metric"] == f"bias:{choice.reading}") & (rows["axis"] == choice.measured)][columns]
    ppl = rows[(rows["metric"] == "perplexity") & (rows["axis"] == "")]
    ppl = ppl[["variant", "value", "low", "high", "delta", "delta_low", "delta_high"]]
    mine = lookup.of_axis(run, variants, choice.axis)
    if split == lookup.REPORTED:
        mine = mine[mine["chosen"].astype(bool)]
    table = mine.merge(bias, on="variant").merge(ppl, on="variant", suffixes=("", "_ppl"))
    table = table[table["value"].notna() & table["value_ppl"].notna()]
    table = table[(table["method"] == "dense") | (table["n_cut"] > 0)]
    return table.assign(front=front(table["value_ppl"], table["value"])).reset_index(drop=True)


def _figure(run: Run, choice: Choice, table: pd.DataFrame, split: str) -> go.Figure:
    figure = blank(choice, 520, "perplexity (lower is better)", "bias (lower is better)")
    _null_band(figure, choice, table, split)
    best = table[table["front"]].sort_values(["value_ppl", "value"])
    figure.add_trace(go.Scatter(
        x=best["value_ppl"], y=best["value"], mode="lines", line={"shape": "vh", "width": 1.2, "dash": "dot",
        "color": choice.theme.ink}, name="front", hoverinfo="skip",
    ))  # fmt: skip
    present = set(table["method"])
    order = [name for name in words.METHODS if name in present] + sorted(present - set(words.METHODS))
    for method in order:
        figure.add_trace(_points(run, choice, table[table["method"] == method], method))
    _ring(figure, choice, table, lookup.variant_of(run, choice)["variant"])
    is_log = needs_log([*table["value_ppl"], *table["high_ppl"].dropna()])
    figure.update_xaxes(type="log" if is_log else "linear", showgrid=True, nticks=6, tickangle=0)
    figure.update_yaxes(nticks=6)
    figure.update_layout(legend={"entrywidth": 104, "font": {"size": 11}})
    return figure


def _null_band(figure: go.Figure, choice: Choice, table: pd.DataFrame, split: str) -> None:
    dense = table[(table["method"] == "dense") & table["null_high"].notna()]
    if dense.empty:
        return
    low, high = float(dense["null_low"].iat[0]), float(dense["null_high"].iat[0])
    figure.add_hrect(y0=low, y1=high, fillcolor=choice.theme.band, line_width=0, layer="below")
    figure.add_annotation(
        x=1, xref="paper", y=low, text="null band: no difference", showarrow=False, xanchor="right", yanchor="bottom",
        font={"size": 11, "color": choice.theme.soft},
    )  # fmt: skip


def _points(run: Run, choice: Choice, table: pd.DataFrame, method: str) -> go.Scatter:
    colour = method_colour(method, choice.dark)
    soft = _faint(colour)
    bars = {"type": "data", "symmetric": False, "color": soft, "thickness": 1, "width": 0}
    sizes = 8 + 22 * table["realised"].clip(0, 0.5)
    return go.Scatter(
        x=table["value_ppl"], y=table["value"], mode="markers", name=words.method_name(method),
        error_x={**bars, "array": table["high_ppl"] - table["value_ppl"],
                 "arrayminus": table["value_ppl"] - table["low_ppl"]},
        error_y={**bars, "array": table["high"] - table["value"], "arrayminus": table["value"] - table["low"]},
        marker={"color": colour, "opacity": 1, "symbol": method_symbol(method), "size": sizes,
                "line": {"width": 2 if method == "dense" else 0, "color": colour}},
        customdata=table[["variant"]].to_numpy(), text=[_hover(run, row) for row in table.to_dict("records")],
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[index : index + 2], 16) for index in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.3)"


def _ring(figure: go.Figure, choice: Choice, table: pd.DataFrame, variant: str) -> None:
    """A ring around the variant the reader chose."""
    mine = table[table["variant"] == variant]
    if mine.empty:
        return
    marker = {"symbol": "circle-open", "size": 24, "color": choice.theme.ink, "line": {"width": 2}}
    figure.add_trace(go.Scatter(
        x=mine["value_ppl"], y=mine["value"], mode="markers", marker=marker, hoverinfo="skip", name="your choice",
        customdata=mine[["variant"]].to_numpy(),
    ))  # fmt: skip


def _hover(run: Run, row: dict[str, Any]) -> str:
    text = f"<b>{lookup.variant_label(row)}</b>"
    if math.isfinite(row["gamma"]):
        text += f", γ = {row['gamma']:g}"
    if row["n_cut"]:
        text += f"<br>{row['n_cut']} of {lookup.total_heads(run)} heads"
    text += f"<br>bias {say.with_interval(row['value'], row['low'], row['high'])}"
    text += f"<br>perplexity {say.with_interval(row['value_ppl'], row['low_ppl'], row['high_ppl'], True)}"
    return text + ("<br>on the front" if row["front"] else "")


def _answer(run: Run, choice: Choice, table: pd.DataFrame) -> str:
    """Who is on the front, and whether the chosen variant is, or which variant beats it at both."""
    best = table[table["front"]].sort_values("value_ppl")
    names = [_named(row) for row in best.to_dict("records")]
    text = f"{len(best)} of {len(table)} variants are on the front: {say.listing(names)}."
    chosen = lookup.variant_of(run, choice)["variant"]
    mine = table[table["variant"] == chosen]
    if mine.empty:
        return f"{text} The chosen variant was not measured on these prompts."
    if bool(mine["front"].iat[0]):
        return f"{text} No variant beats {_named(mine.iloc[0].to_dict())} at both."
    x, y = float(mine["value_ppl"].iat[0]), float(mine["value"].iat[0])
    beats = table[(table["value_ppl"] <= x) & (table["value"] <= y) & (table["variant"] != chosen) & table["front"]]
    by = say.listing([_named(row) for row in beats.to_dict("records")], 3)
    return f"{text} {_named(mine.iloc[0].to_dict())} is beaten at both by {by}."


def _named(row: dict[str, Any]) -> str:
    if row["method"] == "dense":
        return "the dense model"
    gamma = f", γ {row['gamma']:g}" if math.isfinite(row["gamma"]) else ""
    return f"{words.method_name(row['method'])} ({say.percent(row['sparsity'])}{gamma})"


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    names = {"variant": "variant", "method": "method", "gamma": "γ", "sparsity": "share asked", "realised": "share cut",
             "value": "bias", "low": "bias low", "high": "bias high", "value_ppl": "perplexity",
             "low_ppl": "perplexity low", "high_ppl": "perplexity high", "front": "on the front",
             "n": "prompts"}  # fmt: skip
    shown = table.assign(method=table["method"].map(words.method_name))
    return shown[list(names)].rename(columns=names)

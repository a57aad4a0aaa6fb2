"""Do the effects of single heads add up when several are cut?"""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import POOLED
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel, blank, nothing
from engine.report.charts.reliability_parts import line_at, marker
from engine.store.runs import Run


def additivity(run: Run, choice: Choice) -> Panel:
    """Sum of single effects against the measured change, along the slider."""
    axis = words.axis_name(choice.measured)
    question = f"Do single-head effects on {axis} add up when several heads are cut?"
    scores = lookup.frame(run, "scores")
    mine = scores[(scores["score"] == "z_bias") & (scores["axis"] == choice.measured) & (scores["seed"] == POOLED)]
    single = mine.set_index("unit")["value"]
    rows = []
    for sparsity in lookup.levels(run, choice.method, choice.axis):
        variant = lookup.variant_of(
            run, Choice(choice.method, choice.axis, sparsity, choice.measured_axis, choice.reading)
        )
        row = lookup.bias(run, variant["variant"], choice)
        if sparsity > 0 and row is not None and math.isfinite(row["delta"]):
            predicted = -float(single.reindex(lookup.cut_units(variant)).sum(min_count=1))
            rows.append(
                {
                    "sparsity": sparsity,
                    "heads cut": int(variant["n_cut"]),
                    "predicted change": predicted,
                    "measured change": row["delta"],
                    "low": row["delta_low"],
                    "high": row["delta_high"],
                }
            )
    table = pd.DataFrame(rows)
    if table.empty or table["predicted change"].isna().all():
        return nothing(
            "additivity", question, "That takes a pruned variant of this method, and heads that were ranked."
        )
    figure = _additivity_figure(choice, table)
    last = table.iloc[-1]
    inside = int(((table["predicted change"] >= table["low"]) & (table["predicted change"] <= table["high"])).sum())
    measured = f"{phrasing.signed(last['measured change'])} ({phrasing.span(last['low'], last['high'])})"
    answer = (
        f"At {phrasing.percent(last['sparsity'])} the single effects add up to {phrasing.signed(last['predicted change'])}, "
        f"measured was {measured}. The sum lies inside the measured interval at {inside} of {len(table)} sparsities."
    )
    note = (
        "Single effects come from validation prompts, measured changes from test prompts. Heads chosen for large "
        "effects look larger than they are, which makes the sum too large; heads that stand in for each other show "
        "only when they are cut together, which makes it too small."
    )
    return Panel("additivity", question, answer, figure, table, note)


def _additivity_figure(choice: Choice, table: pd.DataFrame) -> go.Figure:
    figure = blank(choice, 340, "share of heads cut", "change of bias")
    x = [100 * value for value in table["sparsity"]]
    error = {
        "type": "data",
        "symmetric": False,
        "array": table["high"] - table["measured change"],
        "arrayminus": table["measured change"] - table["low"],
        "width": 4,
        "thickness": 1.5,
    }
    for place, (name, column, dash) in enumerate(
        (
            ("measured, with 95 % interval", "measured change", "solid"),
            ("sum of single effects", "predicted change", "dash"),
        )
    ):
        figure.add_trace(
            go.Scatter(
                x=x,
                y=table[column],
                mode="lines+markers",
                name=name,
                marker=marker(choice, place),
                line={"color": marker(choice, place)["color"], "dash": dash, "width": 2},
                error_y=error if place == 0 else None,
                hovertemplate="%{x:.0f} %: %{y:.3f}<extra></extra>",
            )
        )
    line_at(figure, choice, 0.0)
    figure.update_xaxes(ticksuffix=" %")
    return figure

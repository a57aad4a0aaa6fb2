"""Do the effects of single heads add up when several are cut?"""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import POOLED
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.marks import bars_of
from engine.report.charts.panel import Choice, Panel, blank, nothing
from engine.report.charts.reliability_parts import line_at, marker
from engine.store.runs import Run


def additivity(run: Run, choice: Choice) -> Panel:
    """Sum of single effects against the measured change, along the slider."""
    question = f"Do single-head effects on {words.axis_name(choice.measured)} add up when several heads are cut?"
    table = _sums(run, choice)
    if table.empty or table["predicted change"].isna().all():
        why = "That takes a pruned variant of this method, and heads that were ranked."
        return nothing("additivity", question, why)
    last = table.iloc[-1]
    inside = int(((table["predicted change"] >= table["low"]) & (table["predicted change"] <= table["high"])).sum())
    predicted, measured = (phrasing.signed(last[f"{kind} change"]) for kind in ("predicted", "measured"))
    answer = (
        f"At {phrasing.percent(last['sparsity'])} the single effects add up to {predicted}, measured was {measured} "
        f"({phrasing.span(last['low'], last['high'])}). The sum lies inside the measured interval at {inside} of "
        f"{len(table)} sparsities."
    )
    note = (
        "Single effects come from validation prompts, measured changes from test prompts. Heads chosen for large "
        "effects look larger than they are, which makes the sum too large; heads that stand in for each other show "
        "only when they are cut together, which makes it too small."
    )
    return Panel("additivity", question, answer, _figure(choice, table), table, note)


def _sums(run: Run, choice: Choice) -> pd.DataFrame:
    """One row per sparsity of the chosen method: the sum of single effects, and the measured change."""
    scores = lookup.frame(run, "scores")
    mine = scores[(scores["score"] == "z_bias") & (scores["axis"] == choice.measured) & (scores["seed"] == POOLED)]
    single, rows = mine.set_index("unit")["value"], []
    for sparsity in lookup.levels(run, choice.method, choice.axis):
        variant = lookup.variant_of(run, replace(choice, level=sparsity))
        row = lookup.bias(run, variant["variant"], choice)
        if sparsity > 0 and row is not None and math.isfinite(row["delta"]):
            predicted = -float(single.reindex(lookup.cut_units(variant)).sum(min_count=1))
            sums = {"predicted change": predicted, "measured change": row["delta"]}
            ends = {"low": row["delta_low"], "high": row["delta_high"]}
            rows.append({"sparsity": sparsity, "heads cut": int(variant["n_cut"]), **sums, **ends})
    return pd.DataFrame(rows)


def _figure(choice: Choice, table: pd.DataFrame) -> go.Figure:
    figure, measured = blank(choice, 340, "share of heads cut", "change of bias"), "measured change"
    error = bars_of(table, "", 1.5, measured, width=4)
    del error["color"]
    said = "%{x:.0f} %: %{y:.3f}<extra></extra>"
    lines = (
        (measured, "measured, with 95 % interval", "solid", error),
        ("predicted change", "sum of single effects", "dash", None),
    )
    for place, (column, name, dash, bars) in enumerate(lines):
        look = marker(choice, place)
        line = {"color": look["color"], "dash": dash, "width": 2}
        trace = {"mode": "lines+markers", "name": name, "marker": look, "line": line, "error_y": bars}
        figure.add_scatter(x=100 * table["sparsity"], y=table[column], hovertemplate=said, **trace)
    line_at(figure, choice, 0.0)
    figure.update_xaxes(ticksuffix=" %")
    return figure

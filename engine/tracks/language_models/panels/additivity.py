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
from engine.tracks.language_models.panels.scored_by import unmeasured


def additivity(run: Run, choice: Choice) -> Panel:
    """Sum of single effects against the measured change, along the slider."""
    question = (
        f"Do single-head effects on {words.axis_name(choice.measured)} add up when several heads"
        " are cut?"
    )
    table = _sums(run, choice)
    if table.empty or table["predicted change"].isna().all():
        why = "That takes a pruned variant of this method, and heads that were ranked."
        return nothing("additivity", question, why)
    last = table.iloc[-1]
    inside = int(
        (
            (table["predicted change"] >= table["low"])
            & (table["predicted change"] <= table["high"])
        ).sum()
    )
    predicted, measured = (
        phrasing.signed(last[f"{kind} change"]) for kind in ("predicted", "measured")
    )
    answer = (
        f"At {phrasing.percent(last['sparsity'])} the single effects add up to {predicted},"
        f" measured was {measured} ({phrasing.span(last['low'], last['high'])})."
    )
    more = (
        f"The sum lies inside the measured interval at {inside} of {len(table)} sparsities."
        f" {_parts_said(last)}"
    )
    note = (
        "Bars on the sum add the intervals of the single effects up as if they erred together, so"
        " they are wide. Single effects come from validation prompts, measured changes from test"
        " prompts. Heads chosen for large effects look larger than they are, which makes the sum"
        " too large; heads that stand in for each other show only when they are cut together, which"
        " makes it too small."
    )
    return Panel("additivity", question, answer, _figure(choice, table), table, note, more=more)


def _parts_said(row: pd.Series) -> str:
    """How much of the difference is the estimator's error, and what is left for interaction."""
    left = phrasing.signed(row["interaction"])
    if not row["first order"]:
        return (
            f"Every one of them was measured, so the difference of {left} is interaction, or"
            " chance."
        )
    heads = phrasing.count(int(row["first order"]), "head")
    if math.isnan(row["estimator error"]):
        return (
            f"{heads} of them stayed first order: how much of the difference is their error is not"
            " known."
        )
    error = phrasing.signed(row["estimator error"])
    return (
        f"{heads} of them stayed first order, which by the heads that have both accounts for"
        f" {error} of the difference; {left} is left for interaction, or chance."
    )


def _sums(run: Run, choice: Choice) -> pd.DataFrame:
    """One row per sparsity of the chosen method: the sum of single effects with its ends, the
    measured change, and the difference in two parts: what first order misses of the heads that were
    not measured, and interaction.
    """
    scores = lookup.frame(run, "scores")
    mine = scores[
        (scores["score"] == "z_bias")
        & (scores["axis"] == choice.measured)
        & (scores["seed"] == POOLED)
    ]
    single, rows = mine.set_index("unit"), []
    slope = _slope(run, choice.measured)
    for sparsity in lookup.levels(run, choice.method, choice.axis):
        variant = lookup.variant_of(run, replace(choice, level=sparsity))
        row = lookup.bias(run, variant["variant"], choice)
        if sparsity > 0 and row is not None and math.isfinite(row["delta"]):
            cut = single.reindex(lookup.cut_units(variant))
            sums = {
                "predicted change": -float(cut["value"].sum(min_count=1)),
                "measured change": row["delta"],
            }
            sums |= {
                "sum low": -cut["high"].sum(skipna=False),
                "sum high": -cut["low"].sum(skipna=False),
            }
            ends = {"low": row["delta_low"], "high": row["delta_high"]}
            sums |= _apart(
                sums["measured change"] - sums["predicted change"], unmeasured(cut)["value"], slope
            )
            rows.append({"sparsity": sparsity, "heads cut": int(variant["n_cut"]), **sums, **ends})
    return pd.DataFrame(rows)


def _apart(difference: float, first_order: pd.Series, slope: float) -> dict[str, float]:
    """The difference between measured change and sum, in parts; slope: of measured effects on first
    order."""
    error = -float((slope - 1) * first_order.sum()) if len(first_order) else 0.0
    left = difference if math.isnan(error) else difference - error
    return {"first order": len(first_order), "estimator error": error, "interaction": left}


def _slope(run: Run, axis: str) -> float:
    """How much larger measured effects are than first order, by the heads that have both; NaN where
    no run says."""
    said = ((run.meta.get("scoring") or {}).get("z_bias") or {}).get(axis) or {}
    slope = (said.get("first_order") or {}).get("slope")
    return math.nan if slope is None else float(slope)


def _figure(choice: Choice, table: pd.DataFrame) -> go.Figure:
    figure, measured = blank(choice, 340, "share of heads cut", "change of bias"), "measured change"
    error = bars_of(table, "", 1.5, measured, width=4)
    del error["color"]
    said = "%{x:.0f} %: %{y:.3f}<extra></extra>"
    sums = bars_of(table, "", 1.5, "predicted change", "sum low", "sum high", width=4)
    del sums["color"]
    lines = (
        (measured, "measured, with 95 % interval", "solid", error),
        ("predicted change", "sum of single effects", "dash", sums),
    )
    for place, (column, name, dash, bars) in enumerate(lines):
        look = marker(choice, place)
        line = {"color": look["color"], "dash": dash, "width": 2}
        trace = {
            "mode": "lines+markers",
            "name": name,
            "marker": look,
            "line": line,
            "error_y": bars,
        }
        figure.add_scatter(x=100 * table["sparsity"], y=table[column], hovertemplate=said, **trace)
    line_at(figure, choice, 0.0)
    figure.update_xaxes(ticksuffix=" %")
    return figure

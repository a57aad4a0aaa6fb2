"""The harm before and after the cut, each with its interval, beside what chance alone would give:
how sure are we?"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.marks import add_points, bars, dot, entry, hover, row_names, row_range
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain, wrapped
from engine.report.contract import Measure
from engine.report.tracks import track_of
from engine.store.runs import Run

KEY = "before_after"


def before_after(run: Run, choice: Choice) -> Panel:
    """A row per model: the harm with its interval; grey is the range that chance alone would give
    there."""
    measure, variant = lookup.reading(run, choice).harm, lookup.variant_of(run, choice)
    question = (
        f"How sure is the {measure.name} of {words.axis_name(choice.measured)}, before and after?"
    )
    models = [("dense", track_of(run).whole, "dense")]
    if variant["variant"] != "dense":
        models.append((variant["variant"], lookup.variant_label(run, variant), variant["method"]))
    found = [(name, method, lookup.harm(run, key, choice)) for key, name, method in models]
    rows = [
        (name, method, row)
        for name, method, row in found
        if row is not None and math.isfinite(row["value"])
    ]
    if not rows:
        return nothing(KEY, question, f"The {measure.name} was not measured here.")
    figure = blank(choice, 96 + 62 * len(rows), measure.title)
    for place, (_, method, row) in enumerate(rows):
        _add_row(run, choice, figure, measure, place, method, row)
    row_names(figure, [wrapped(phrasing.sentence(name), 18) for name, _, _ in rows])
    figure.update_xaxes(showgrid=True, rangemode="tozero", nticks=6)
    if any(math.isfinite(row["null_high"]) for _, _, row in rows):
        square = {"symbol": "square", "size": 12, "color": choice.theme.band}
        entry(figure, "what chance alone would give", mode="markers", marker=square)
    return Panel(
        KEY, question, _answer(measure, rows), figure, _table(rows), lookup.caveat(run, rows[-1][2])
    )


def _add_row(
    run: Run,
    choice: Choice,
    figure: Any,
    measure: Measure,
    place: int,
    method: str,
    row: dict[str, Any],
) -> None:
    if math.isfinite(row["null_low"]) and math.isfinite(row["null_high"]):
        row_range(figure, choice, place, row["null_low"], row["null_high"], 0.32)
    style = track_of(run).style(method, choice.dark)
    error = bars(row["value"], row["low"], row["high"], style.colour, 2.4, 6)
    text = hover(
        plain(lookup.method_label(run, method)), measure.with_interval(row), measure.null_said(row)
    )
    add_points(
        figure, [row["value"]], [place], [text], dot(style, 14, 2), error_x=error, showlegend=False
    )


def _answer(measure: Measure, rows: list[tuple[str, str, dict[str, Any]]]) -> str:
    said = [f"{name}: {measure.with_interval(row)}" for name, _, row in rows]
    change = f"; change {measure.change(rows[1][2])}" if len(rows) > 1 else ""
    return f"{phrasing.sentence('; '.join(said))}{change}."


def _table(rows: list[tuple[str, str, dict[str, Any]]]) -> pd.DataFrame:
    columns = {
        "value": "value",
        "low": "low",
        "high": "high",
        "null_low": "null low",
        "null_high": "null high",
    }
    return pd.DataFrame(
        [
            {"model": name} | {title: row[key] for key, title in columns.items()}
            for name, _, row in rows
        ]
    )

"""Is the speedup real: what FLOPs promise against the time that was measured, every arm."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.columns import METHOD, readable, titled
from engine.report.charts.marks import add_points, bars_of, dot, silent
from engine.report.charts.panel import Choice, Panel, blank, nothing, ratio_axis
from engine.report.tracks import track_of
from engine.store.runs import Run

QUESTION = "Does the promised speedup arrive?"
COLUMNS = (
    METHOD,
    *titled(target="target speedup", theoretical="speedup by FLOPs", speedup="measured"),
    *titled(speedup_low="measured low", speedup_high="measured high", n="timings"),
)


def speed(run: Run, choice: Choice) -> Panel:
    """Measured against theoretical speedup; on the dashed line the promise is kept."""
    table = _table(run, choice)
    if table.empty:
        return nothing("speed", QUESTION, "This run has no measured times.")
    made = run.meta.get("provenance", {})
    device = made.get("device_name") or made.get("device", "") or "an unknown device"
    note = (
        f"Time of the first trial of each arm, cut and dense in turn, on {device}; bars hold "
        "the middle half of the paired ratios. Other machines differ."
    )
    answer, figure = _answer(run, choice, table), _figure(run, choice, table)
    return Panel("speed", QUESTION, answer, figure, readable(table, COLUMNS), note)


def _figure(run: Run, choice: Choice, table: pd.DataFrame) -> go.Figure:
    figure = blank(choice, 360, "speedup by FLOPs", "speedup as measured")
    for method, rows in table.groupby("method", sort=False):
        style, chosen, name = (
            lookup.look_of(run, choice, str(method)),
            method == choice.method,
            str(method),
        )
        error = bars_of(rows, style.colour, 1.3, "speedup", "speedup_low", "speedup_high")
        line = {"color": style.colour, "width": 2.5 if chosen else 1, "dash": style.dash}
        marker = {**dot(style, 11 if chosen else 8), "line": {"width": 2}}
        add_points(
            figure,
            rows["theoretical"],
            rows["speedup"],
            _hovers(rows),
            marker,
            line=line,
            error_y=error,
            mode="lines+markers",
            opacity=1 if chosen else 0.8,
            name=words.method_name(name),
        )
    ends = [1, float(table["theoretical"].max())]
    line = {"color": choice.theme.soft, "dash": "dash", "width": 1}
    silent(figure, ends, ends, mode="lines", line=line, name="promise kept", showlegend=None)
    ratio_axis(figure, table["theoretical"], table["target"])
    ticks = sorted({1.0, *table["target"]})
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=[f"{value:g}×" for value in ticks])
    return figure


def _hovers(table: pd.DataFrame) -> list[str]:
    return [
        f"<b>{words.method_name(row['method'])}</b>, {row['target']:g}×<br>by FLOPs "
        f"{phrasing.factor(row['theoretical'])}, measured {_measured(row)}"
        for row in table.to_dict("records")
    ]


def _measured(row: dict[str, Any]) -> str:
    return f"{row['speedup']:.2f}× ({row['speedup_low']:.2f} to {row['speedup_high']:.2f})"


def _table(run: Run, choice: Choice) -> pd.DataFrame:
    if not run.has("costs"):
        return pd.DataFrame()
    track, variants = track_of(run), lookup.reported(run)
    arms = variants[["variant", "method", "speedup"]].rename(columns={"speedup": "target"})
    table = lookup.frame(run, "costs").merge(arms, on="variant")
    table = table[(table["method"] != "dense") & table["speedup"].notna()]
    shown = track.compared(track.order(set(table["method"])), choice.method)
    return table[table["method"].isin(shown)].sort_values(["method", "target"], ignore_index=True)


def _answer(run: Run, choice: Choice, table: pd.DataFrame) -> str:
    if choice.method == "dense" or choice.level <= track_of(run).level.none:
        return "Nothing is cut here; the chart shows what was measured for every method."
    mine = table[(table["method"] == choice.method) & at_level(table["target"], choice.level)]
    if mine.empty:
        return "The time of the chosen variant was not measured."
    row: dict[str, Any] = mine.iloc[0].to_dict()
    promise = row["theoretical"]
    part = (
        phrasing.percent(round(row["speedup"] / promise, 2))
        if math.isfinite(promise) and promise
        else ""
    )
    verdict = "faster" if row["speedup_low"] > 1 else "not clearly faster"
    verdict = "slower" if row["speedup_high"] < 1 else verdict
    return (
        f"{words.method_name(choice.method)} at {choice.level:g}×: by FLOPs"
        f" {phrasing.factor(promise)} as fast, measured {_measured(row)}, {part} of the promise:"
        f" {verdict} than the dense model."
    )

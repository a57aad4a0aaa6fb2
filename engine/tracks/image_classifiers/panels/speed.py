"""Does the speedup arrive: what FLOPs promise against the time that was measured, every arm."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.levels import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel, blank, nothing, ratio_axis
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.image_classifiers.panels.lookup import speedup_of

QUESTION = "Does the promised speedup arrive?"


def speed(run: Run, choice: Choice) -> Panel:
    """Measured against theoretical speedup; on the dashed line the promise is kept."""
    table = _table(run, choice)
    if table.empty:
        return nothing("speed", QUESTION, "This run has no measured times.")
    figure = blank(choice, 360, "speedup by FLOPs", "speedup as measured")
    shown = list(dict.fromkeys(table["method"]))
    for method in shown:
        figure.add_trace(_points(run, choice, table[table["method"] == method], method))
    _ideal(figure, choice, table)
    ratio_axis(figure, table["theoretical"], table["target"])
    ticks = sorted({1.0, *table["target"]})
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=[f"{value:g}×" for value in ticks])
    device = run.meta.get("provenance", {}).get("device_name") or run.meta.get("provenance", {}).get("device", "")
    note = (
        f"Time of the first trial of each arm, cut and dense in turn, on {device or 'an unknown device'}; bars hold "
        "the middle half of the paired ratios. Other machines differ."
    )
    names = {"method": "method", "target": "target speedup", "theoretical": "speedup by FLOPs", "speedup": "measured",
             "speedup_low": "measured low", "speedup_high": "measured high", "n": "timings"}  # fmt: skip
    readable = table.assign(method=table["method"].map(words.method_name))[list(names)].rename(columns=names)
    return Panel("speed", QUESTION, _answer(run, choice, table), figure, readable, note)


def _table(run: Run, choice: Choice) -> pd.DataFrame:
    if not run.has("costs"):
        return pd.DataFrame()
    track, variants = track_of(run), lookup.reported(run)
    arms = variants[["variant", "method", "speedup"]].rename(columns={"speedup": "target"})
    table = lookup.frame(run, "costs").merge(arms, on="variant")
    table = table[(table["method"] != "dense") & table["speedup"].notna()]
    shown = track.compared(track.order(set(table["method"])), choice.method)
    return table[table["method"].isin(shown)].sort_values(["method", "target"], ignore_index=True)


def _points(run: Run, choice: Choice, table: pd.DataFrame, method: str) -> go.Scatter:
    style, chosen = track_of(run).style(method, choice.dark), method == choice.method
    bars = {"type": "data", "symmetric": False, "array": table["speedup_high"] - table["speedup"], "width": 0,
            "arrayminus": table["speedup"] - table["speedup_low"], "color": style.colour, "thickness": 1.3}  # fmt: skip
    hover = [
        f"<b>{words.method_name(method)}</b>, {row['target']:g}×<br>by FLOPs {phrasing.factor(row['theoretical'])}, "
        f"measured {row['speedup']:.2f}× ({row['speedup_low']:.2f} to {row['speedup_high']:.2f})"
        for row in table.to_dict("records")
    ]
    marker = {"symbol": style.symbol, "size": 11 if chosen else 8, "color": style.colour, "line": {"width": 2}}
    return go.Scatter(
        x=table["theoretical"], y=table["speedup"], mode="lines+markers", error_y=bars, text=hover, marker=marker,
        name=words.method_name(method), line={"color": style.colour, "width": 2.5 if chosen else 1, "dash": style.dash},
        hovertemplate="%{text}<extra></extra>", opacity=1 if chosen else 0.8,
    )  # fmt: skip


def _ideal(figure: go.Figure, choice: Choice, table: pd.DataFrame) -> None:
    most = float(table["theoretical"].max())
    figure.add_trace(go.Scatter(
        x=[1, most], y=[1, most], mode="lines", line={"color": choice.theme.soft, "dash": "dash", "width": 1},
        hoverinfo="skip", name="promise kept",
    ))  # fmt: skip


def _answer(run: Run, choice: Choice, table: pd.DataFrame) -> str:
    at = speedup_of(run, choice)
    mine = table[(table["method"] == choice.method) & at_level(table["target"], at)]
    if choice.method == "dense" or choice.level <= track_of(run).level.none:
        return "Nothing is cut here; the chart shows what was measured for every method."
    if mine.empty:
        return "The time of the chosen variant was not measured."
    row: dict[str, Any] = mine.iloc[0].to_dict()
    promise, found = row["theoretical"], row["speedup"]
    part = phrasing.percent(round(found / promise, 2)) if math.isfinite(promise) and promise else ""
    span = f"{row['speedup_low']:.2f} to {row['speedup_high']:.2f}"
    verdict = "It is faster" if row["speedup_low"] > 1 else "It is not clearly faster"
    if row["speedup_high"] < 1:
        verdict = "It is slower"
    return (
        f"{words.method_name(choice.method)} at {at:g}×: by FLOPs {phrasing.factor(promise)} as fast, measured {found:.2f}× "
        f"({span}), {part} of the promise. {verdict} than the dense model."
    )

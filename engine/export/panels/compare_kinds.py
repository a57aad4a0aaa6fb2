"""Audits of kinds that measure alike, on one axis: every reported model of each in quality and gap, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine import words
from engine.export import say
from engine.export.panels import lookup
from engine.export.panels.base import Choice, Panel, blank, nothing, plain, wrapped
from engine.export.panels.compare import titles
from engine.export.tracks import track_name, track_of
from engine.export.tracks.base import Measure
from engine.metrics.pareto import front
from engine.store.runs import Run

HEIGHT = 400
QUALITY, GAP = "accuracy", "accuracy_gap"
"""What the kinds measure alike."""
LONG = 14
"""Letters from which on a name of a method leaves room for two beside each other only."""
FRONT_NAMED = 6


def are_kin(one: Run, other: Run) -> bool:
    """Whether two audits are of different kinds that measure the same things."""
    first, second = track_of(one), track_of(other)
    return first.name != second.name and (second.name in first.kin or first.name in second.kin)


def kin_of(runs: Sequence[Run]) -> list[Run]:
    """The first run, and of the others those of its kind or kin to it."""
    first = runs[0]
    return [run for run in runs if track_name(run.meta) == track_name(first.meta) or are_kin(first, run)]


def compare_kinds(runs: Sequence[Run], choice: Choice) -> Panel:
    """One column per audit, the same axes in all; the others' models in the background; the front over all of them."""
    runs, axis = kin_of(runs), words.axis_name(choice.measured)
    question = f"Which cut models are the most accurate at the smallest accuracy gap of {axis}?"
    table = points(runs, choice)
    if table["run"].nunique() < 2:
        return nothing("compare_kinds", question, f"Fewer than two of these audits measured {axis}.")
    x, y = (_room(table, name) for name in ("quality", "gap"))
    parts = tuple(_column(run, choice, table, name, x, y) for run, name in zip(runs, titles(runs), strict=True)
                  if name in set(table["run"]))  # fmt: skip
    same = _same_images(runs)
    kind = "On the same test images" if same else "Careful: not on the same test images, so levels are not on one scale"
    answer = f"{kind}. {_answer(table)}"
    note = (
        "Faint: models of the other audits. Dotted line: front of the cut models of all audits, which no other beats "
        "at both, read from values alone; bars are 95 % intervals, and where they meet nothing is told apart. Models "
        "are not equally cut, and each kind counts a cut in its own way: the table says how much is gone. Less cut is "
        "easier."
    )
    return Panel("compare_kinds", question, answer, None, _readable(table), note, parts)


def points(runs: Sequence[Run], choice: Choice) -> pd.DataFrame:
    """Every reported model of every audit that measured the axis: quality and gap with intervals; front over all."""
    rows = []
    for run, name in zip(runs, titles(runs), strict=True):
        rows += _rows(run, name, choice)
    columns = ["is_cut", "run", "kind", "variant", "method", "label", "cut", "quality", "gap", "n"]
    table = pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)
    if table.empty:
        return table.assign(front=False)
    quality, gap = (table[name].where(table["is_cut"]) for name in ("quality", "gap"))
    return table.assign(front=front(-quality, gap))


def _rows(run: Run, name: str, choice: Choice) -> list[dict[str, Any]]:
    track, found = track_of(run), []
    for variant in lookup.of_axis(run, lookup.reported(run), choice.axis).to_dict("records"):
        quality = lookup.result(run, variant["variant"], QUALITY)
        gap = lookup.result(run, variant["variant"], GAP, choice.measured)
        if quality is None or gap is None or not (_known(quality) and _known(gap)):
            continue
        row = {"run": name, "kind": track.about, "variant": variant["variant"], "method": variant["method"]}
        row |= {"label": say.sentence(lookup.variant_label(run, variant)), "cut": lookup.amount(run, variant)}
        row |= {f"quality{end}": quality[column] for end, column in _ENDS}
        row |= {f"gap{end}": gap[column] for end, column in _ENDS}
        found.append({**row, "is_cut": bool(variant["n_cut"]), "n": gap["n"]})
    return found


_ENDS = (("", "value"), ("_low", "low"), ("_high", "high"))


def _known(row: dict[str, Any]) -> bool:
    return row["value"] == row["value"]


def _same_images(runs: Sequence[Run]) -> bool:
    """Whether all audits are about images of one content, as far as they say."""
    return len({str(run.meta["data"].get("digest")) for run in runs}) == 1


def _room(table: pd.DataFrame, column: str) -> tuple[float, float]:
    """What an axis spans: all values, not the ends of every interval."""
    low, high = float(table[column].min()), float(table[column].max())
    room = 0.12 * (high - low) or 0.02
    return low - room, high + room


def _column(
    run: Run, choice: Choice, table: pd.DataFrame, name: str, x: tuple[float, float], y: tuple[float, float]
) -> go.Figure:
    measures = {QUALITY: Measure(QUALITY), GAP: Measure(GAP)}
    mine, room = table[table["run"] == name], 19 * _legend_rows(table)
    methods = ["dense", *track_of(run).order(set(mine["method"]) - {"dense"})]
    methods = [method for method in methods if method in set(mine["method"])]
    figure = blank(choice, HEIGHT + room, measures[QUALITY].title, measures[GAP].title)
    others = table[table["run"] != name]
    figure.add_trace(go.Scatter(
        x=others["quality"], y=others["gap"], mode="markers", showlegend=False, hoverinfo="skip",
        marker={"size": 6, "color": choice.theme.soft, "opacity": 0.35},
    ))  # fmt: skip
    best = table[table["front"]].sort_values(["quality", "gap"])
    figure.add_trace(go.Scatter(
        x=best["quality"], y=best["gap"], mode="lines", hoverinfo="skip", showlegend=False,
        line={"shape": "vh", "width": 1.2, "dash": "dot", "color": choice.theme.ink},
    ))  # fmt: skip
    for method in methods:
        figure.add_trace(_points(run, choice, mine[mine["method"] == method], method, measures))
    figure.add_annotation(
        x=0, xref="paper", xanchor="left", y=1, yref="paper", yanchor="bottom", showarrow=False, yshift=2, align="left",
        text=f"<b>{wrapped(name, 42)}</b>", font={"size": 13},
    )  # fmt: skip
    lines = max(wrapped(one, 42).count("<br>") for one in table["run"]) + 1
    figure.update_xaxes(range=list(x), showgrid=True, nticks=6, tickangle=0, automargin=False)
    figure.update_yaxes(range=list(y), nticks=6)
    below = {"y": -58 / (HEIGHT - 75), "yanchor": "top", "font": {"size": 11}}  # the same room in every column
    figure.update_layout(legend=below, margin={"t": 14 + 17 * lines, "b": 60 + room})
    return figure


def _legend_rows(table: pd.DataFrame) -> int:
    """Rows that the longest legend of all columns takes."""
    found = []
    for _, rows in table.groupby("run"):
        names = [words.method_name(method) for method in rows["method"].unique()]
        found.append(-(-len(names) // (3 if max(map(len, names)) < LONG else 2)))
    return max(found)


def _points(run: Run, choice: Choice, rows: pd.DataFrame, method: str, measures: dict[str, Measure]) -> go.Scatter:
    style = track_of(run).style(method, choice.dark)
    red, green, blue = (int(style.colour[place : place + 2], 16) for place in (1, 3, 5))
    bars = {"type": "data", "symmetric": False, "width": 0, "thickness": 1, "color": f"rgba({red},{green},{blue},0.3)"}
    is_open = "-open" in style.symbol or method == "dense"
    return go.Scatter(
        x=rows["quality"], y=rows["gap"], mode="markers",
        name=track_of(run).whole if method == "dense" else words.method_name(method),
        error_x={**bars, "array": rows["quality_high"] - rows["quality"],
                 "arrayminus": rows["quality"] - rows["quality_low"]},
        error_y={**bars, "array": rows["gap_high"] - rows["gap"], "arrayminus": rows["gap"] - rows["gap_low"]},
        marker={"symbol": style.symbol, "size": 11, "color": style.colour,
                "line": {"width": 2 if is_open else 0, "color": style.colour}},
        text=[_hover(row, measures) for row in rows.to_dict("records")], hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _hover(row: dict[str, Any], measures: dict[str, Measure]) -> str:
    text = f"<b>{plain(row['label'])}</b><br>cut: {plain(row['cut'])}"
    for column, measure in (("quality", measures[QUALITY]), ("gap", measures[GAP])):
        low, high = row[f"{column}_low"], row[f"{column}_high"]
        text += f"<br>{measure.name} {say.with_interval(row[column], low, high, few='images')}"
    return text + ("<br>on the front" if row["front"] else "")


def _answer(table: pd.DataFrame) -> str:
    """Which cut models are on the front of all audits together, and how many of each."""
    best = table[table["front"]].sort_values("quality", ascending=False)
    named = [f"{row['label']} ({row['run']})" for row in best.to_dict("records")]
    counts = [f"{int((best['run'] == run).sum()) or 'none'} of {run}" for run in dict.fromkeys(table["run"])]
    verb = "is" if len(best) == 1 else "are"
    return (
        f"By value {len(best)} of {int(table['is_cut'].sum())} cut models {verb} on the front, {say.listing(counts)}: "
        f"{say.listing(named, FRONT_NAMED)}."
    )


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    names = {"run": "audit", "kind": "kind", "label": "model", "cut": "cut", "quality": "accuracy",
             "quality_low": "accuracy low", "quality_high": "accuracy high", "gap": "accuracy gap",
             "gap_low": "gap low", "gap_high": "gap high", "front": "on the front", "n": "images"}  # fmt: skip
    return table[list(names)].rename(columns=names)

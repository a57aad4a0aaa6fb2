"""What more fairness costs in accuracy: the trade-off over λ at one sparsity, and the area it covers (Fig. 5)."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel, blank, nothing, wrapped
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import heading, not_the_fair_axis

QUESTION = "How much accuracy does more fairness cost, and who offers the better choice?"
ABSENT = (
    "This audit has no sweep over λ. Ask for one under “Trade-off over λ” in the Library, or with "
    "--tradeoff on the command line."
)
GAPS = {"gap": "accuracy gap", "degradation": "degradation gap"}
HEIGHT = 400


def has_tradeoff(run: Run, choice: Choice) -> bool:
    return not points(run, choice).empty


def tradeoff(run: Run, choice: Choice) -> Panel:
    """A line of λ per method in accuracy and gap, and the hypervolume of each."""
    table = points(run, choice)
    if table.empty:
        return nothing("fair_tradeoff", QUESTION, ABSENT)
    gap, volumes = _gap(run, choice), _volumes(run, choice)
    parts = [_curve(run, choice, table, gap)]
    if not volumes.empty:
        parts.append(_bars(run, choice, volumes))
    at = phrasing.percent(float(table["sparsity"].iat[0]))
    note = (
        f"All at {at} cut, {phrasing.count(int(table['n_trials'].max()), 'seed')} per point, test images. "
        f"{own.INTERVALS_SEEDS} Dotted line: front, the points no other beats at both, read from values alone."
        f"{_reference_said(volumes)} Points of one line differ in λ only, so read the line, not the single point. "
        "Methods that were not swept are not here: Pareto has all."
    )
    return Panel(
        "fair_tradeoff", QUESTION, _answer(run, choice, table, volumes, gap), None, _readable(table, volumes), note,
        tuple(parts), True,
    )  # fmt: skip


def points(run: Run, choice: Choice) -> pd.DataFrame:
    """Rows of the sweep on the measured axis, by method and λ."""
    if not run.has("tradeoff"):
        return pd.DataFrame()
    table, gap = lookup.frame(run, "tradeoff"), _gap(run, choice)
    mine = table[(table["axis"] == choice.measured) & table["accuracy"].notna() & table[gap].notna()]
    order = {name: place for place, name in enumerate(track_of(run).order(mine["method"].unique()))}
    return mine.assign(_place=mine["method"].map(order)).sort_values(["_place", "strength"], ignore_index=True)


def _gap(run: Run, choice: Choice) -> str:
    """Column of the gap the choice reads by."""
    return "degradation" if lookup.reading(run, choice).harm.metric == "degradation_gap" else "gap"


def _volumes(run: Run, choice: Choice) -> pd.DataFrame:
    if not run.has("hypervolume") or _gap(run, choice) != "gap":
        return pd.DataFrame()
    table = lookup.frame(run, "hypervolume")
    mine = table[(table["axis"] == choice.measured) & table["value"].notna()]
    return mine.sort_values("value", ascending=False, ignore_index=True)


def _curve(run: Run, choice: Choice, table: pd.DataFrame, gap: str) -> go.Figure:
    figure = blank(choice, HEIGHT, "accuracy (higher is better)", f"{GAPS[gap]} (lower is better)")
    if gap == "gap" and table["on_front"].any():
        best = table[table["on_front"].astype(bool)].sort_values(["accuracy", gap])
        figure.add_trace(go.Scatter(
            x=best["accuracy"], y=best[gap], mode="lines", hoverinfo="skip", showlegend=False,
            line={"shape": "vh", "width": 1.2, "dash": "dot", "color": choice.theme.ink},
        ))  # fmt: skip
    for method, rows in table.groupby("method", sort=False):
        _line(run, figure, choice, rows, str(method), gap)
    heading(figure, "Trade-off over λ")
    figure.update_xaxes(showgrid=True, nticks=6, tickangle=0)
    figure.update_yaxes(nticks=6)
    figure.update_layout(legend={"y": 1.08}, margin={"t": 30, "r": 24})
    return figure


def _line(run: Run, figure: go.Figure, choice: Choice, rows: pd.DataFrame, method: str, gap: str) -> None:
    """One method, λ from small to large."""
    style = track_of(run).style(method, choice.dark)
    red, green, blue = (int(style.colour[place : place + 2], 16) for place in (1, 3, 5))
    bars = {"type": "data", "symmetric": False, "width": 0, "thickness": 1, "color": f"rgba({red},{green},{blue},0.35)"}
    figure.add_trace(go.Scatter(
        x=rows["accuracy"], y=rows[gap], mode="lines+markers+text", name=words.method_name(method),
        error_x={**bars, "array": rows["accuracy_high"] - rows["accuracy"],
                 "arrayminus": rows["accuracy"] - rows["accuracy_low"]},
        error_y={**bars, "array": rows[f"{gap}_high"] - rows[gap], "arrayminus": rows[gap] - rows[f"{gap}_low"]},
        line={"color": style.colour, "width": 2, "dash": style.dash}, cliponaxis=False,
        marker={"symbol": style.symbol, "size": 11, "color": style.colour, "line": {"width": 1.8,
                "color": style.colour}},
        text=_ends_named(rows), textposition="top right",
        textfont={"size": 11, "color": style.colour}, customdata=[_hover(row, gap) for row in rows.to_dict("records")],
        hovertemplate="%{customdata}<extra></extra>",
    ))  # fmt: skip


def _ends_named(rows: pd.DataFrame) -> list[str]:
    """λ beside the smallest and the largest; the others are in the hover, where labels would hide each other."""
    ends = {rows["strength"].min(), rows["strength"].max()}
    return [f"λ {value:g}" if value in ends else "" for value in rows["strength"]]


def _hover(row: dict[str, Any], gap: str) -> str:
    text = f"<b>{words.method_name(row['method'])}</b>, λ {row['strength']:g}"
    text += f"<br>accuracy {phrasing.with_interval(row['accuracy'], row['accuracy_low'], row['accuracy_high'])}"
    text += f"<br>{GAPS[gap]} {phrasing.with_interval(row[gap], row[f'{gap}_low'], row[f'{gap}_high'])}"
    return text + ("<br>on the front" if gap == "gap" and row["on_front"] else "")


def _bars(run: Run, choice: Choice, volumes: pd.DataFrame) -> go.Figure:
    """Hypervolume: bars with intervals, the largest on top."""
    figure = blank(choice, HEIGHT, "hypervolume (larger is better)")
    for place, row in enumerate(volumes.to_dict("records")):
        style = track_of(run).style(row["method"], choice.dark)
        error = {"type": "data", "symmetric": False, "array": [row["high"] - row["value"]], "thickness": 1.6,
                 "arrayminus": [row["value"] - row["low"]], "color": choice.theme.ink, "width": 4}  # fmt: skip
        figure.add_trace(go.Bar(
            x=[row["value"]], y=[place], orientation="h", width=0.5, showlegend=False, error_x=error,
            marker={"color": style.colour, "opacity": 0.85}, name=words.method_name(row["method"]),
            hovertext=f"<b>{words.method_name(row['method'])}</b><br>{_volume(row)}", hoverinfo="text",
        ))  # fmt: skip
    labels = [wrapped(words.method_name(name)) for name in volumes["method"]]
    figure.update_yaxes(tickvals=list(range(len(labels))), ticktext=labels, showgrid=False,
                        range=[len(labels) - 0.4, -0.6])  # fmt: skip
    figure.update_xaxes(showgrid=True, nticks=5, rangemode="tozero", tickangle=0)
    heading(figure, "Area covered")
    figure.update_layout(margin={"t": 54})  # as beside it, where a legend lies above
    return figure


def _volume(row: dict[str, Any]) -> str:
    return phrasing.with_interval(row["value"], row["low"], row["high"], few="seeds")


def _reference_said(volumes: pd.DataFrame) -> str:
    if volumes.empty:
        return ""
    row = volumes.iloc[0]
    return (
        f" Hypervolume: the area of choices that are worse than some point at both, up to accuracy "
        f"{phrasing.number(row['reference_accuracy'])} and gap {phrasing.number(row['reference_gap'])}; worked out seed by seed."
    )


def _answer(run: Run, choice: Choice, table: pd.DataFrame, volumes: pd.DataFrame, gap: str) -> str:
    """Whose area is larger as far as intervals allow; then what λ does to the chosen or first method."""
    at = phrasing.percent(float(table["sparsity"].iat[0]))
    parts = [f"At {at} cut:"]
    known = list(dict.fromkeys(table["method"]))
    method = choice.method if choice.method in known else known[0]
    parts.append(_along(table[table["method"] == method], method, gap))
    if not volumes.empty:
        best, others = volumes.iloc[0], volumes.iloc[1:]
        clear = [words.method_name(name) for name in others.loc[others["high"] < best["low"], "method"]]
        meets = [words.method_name(name) for name in others.loc[~(others["high"] < best["low"]), "method"]]
        name = words.method_name(best["method"])
        text = f"Of the {len(volumes)} methods swept {name} covers the largest area, {_volume(best.to_dict())}"
        text += f"; its interval lies above that of {phrasing.listing(clear)}" if clear else ""
        text += f"; it meets that of {phrasing.listing(meets)}, so which is larger is open" if meets else ""
        parts.append(f"{text}.")
    return f"{' '.join(parts)}{not_the_fair_axis(run, choice)}"


def _along(rows: pd.DataFrame, method: str, gap: str) -> str:
    """From the smallest to the largest λ of one method."""
    first, last = (rows.iloc[place].to_dict() for place in (0, -1))
    name = words.method_name(method)
    if len(rows) < 2:
        return f"{name} was trained with one λ only."
    moved = []
    for column, what in (("accuracy", "accuracy"), (gap, GAPS[gap])):
        apart = first[f"{column}_high"] < last[f"{column}_low"] or last[f"{column}_high"] < first[f"{column}_low"]
        doubt = "" if apart else " (the intervals overlap)"
        moved.append(f"{what} goes from {phrasing.number(first[column])} to {phrasing.number(last[column])}{doubt}")
    text = f"for {name}, {' and '.join(moved)} as λ grows from {first['strength']:g} to {last['strength']:g}."
    if last[gap] > first[gap]:
        text += f" A larger λ does not make the {GAPS[gap]} smaller here."
    return text


def _readable(table: pd.DataFrame, volumes: pd.DataFrame) -> pd.DataFrame:
    names = {"method": "method", "strength": "λ", "sparsity": "share asked", "accuracy": "accuracy",
             "accuracy_low": "accuracy low", "accuracy_high": "accuracy high", "gap": "accuracy gap",
             "gap_low": "gap low", "gap_high": "gap high", "degradation": "degradation gap",
             "degradation_low": "degradation low", "degradation_high": "degradation high", "on_front": "on the front",
             "n_trials": "seeds"}  # fmt: skip
    shown = table.rename(columns=names)[list(names.values())]
    if not volumes.empty:
        mine = volumes.set_index("method")
        for column, name in (("value", "hypervolume"), ("low", "hypervolume low"), ("high", "hypervolume high")):
            shown[name] = shown["method"].map(mine[column])
    return shown.assign(method=shown["method"].map(words.method_name))

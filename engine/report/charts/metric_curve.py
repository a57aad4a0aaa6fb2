"""How one measure moves as more is cut, for every method of the run: the curve behind the slider."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.levels import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel, apart, blank, needs_log, nothing, ratio_axis
from engine.report.contract import Measure
from engine.report.palette import Style
from engine.report.tracks import track_of
from engine.store.runs import Run

MANY_LINES = 4
ONE_INTERVAL = " The chart shows the intervals of the chosen method; the table has all of them."


@dataclass(frozen=True)
class Curve:
    """What a curve is about. `y_title` above its axis; `absent` says what a run lacks that has no such curve."""

    key: str
    question: str
    measure: Measure
    y_title: str
    absent: str
    with_null: bool = False
    may_be_log: bool = True
    """Whether values far apart are drawn on a logarithmic axis; not where zero is a value like others."""
    said: str = ""
    """The measure as the object of a sentence, where its name alone will not do."""


def along(run: Run, choice: Choice, curve: Curve, note: str, lead: str = "") -> Panel:
    """A measure against how much is cut, every compared method; `lead` is said before the answer, `note` below."""
    table = _along(run, choice, curve.measure)
    if table.empty:
        return nothing(curve.key, curve.question, curve.absent)
    figure = _figure(run, choice, curve, table)
    answer = f"{lead} {_answer(run, choice, curve, table)}".strip()
    note += ONE_INTERVAL if _crowded(run, table) else ""
    return Panel(curve.key, curve.question, answer, figure, _readable(run, curve, table), note)


def _crowded(run: Run, table: pd.DataFrame) -> bool:
    """Whether the bars of all lines would hide the lines: only the chosen one's are drawn then."""
    return not track_of(run).line_labels and table.loc[table["method"] != "dense", "method"].nunique() > MANY_LINES


def seeds_note(run: Run, choice: Choice, measure: Measure) -> str:
    """Methods of which several selections are drawn as one line."""
    several = _pooled(run, _along(run, choice, measure)).query("selections > 1")
    if several.empty:
        return ""
    names = phrasing.listing(words.method_name(name) for name in several["method"].unique())
    return (
        f"{names.capitalize()}: mean of {int(several['selections'].max())} selections, bars reach the outermost ends."
    )


def _along(run: Run, choice: Choice, measure: Measure) -> pd.DataFrame:
    """Reported variants of this target axis (or of none) and the dense model, with their test result."""
    track, results = track_of(run), lookup.frame(run, "results")
    axis = choice.measured if measure.per_axis else ""
    rows = results[results["metric"] == measure.metric]
    rows = rows[(rows["axis"] == axis) & (rows["split"] == lookup.REPORTED)]
    variants = lookup.of_axis(run, lookup.reported(run), choice.axis)
    shown = {"dense", *track.compared(list(variants["method"].unique()), choice.method)}
    columns = list(dict.fromkeys(["variant", track.level.column, *track.columns]))
    table = variants.loc[variants["method"].isin(shown), columns]
    table = table.merge(rows.drop(columns=["split", "axis", "metric"]), on="variant")
    is_dense = table["method"] == "dense"
    order = ["method", track.level.column, "seed"] if "seed" in table else ["method", track.level.column]
    return table[is_dense | (table["n_cut"] > 0)].sort_values(order, ignore_index=True)


def _pooled(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """One point per method and level: several selection seeds become their mean and the outermost interval ends."""
    level = track_of(run).level
    how: dict[str, str] = dict.fromkeys([level.realised, "n_cut", "value", "null_low", "null_high", "delta"], "mean")
    how |= {"variant": "first", "low": "min", "high": "max", "delta_low": "min", "delta_high": "max"}
    how |= {"degenerate": "sum"} if "degenerate" in table else {}
    grouped = table.groupby(["method", level.column])
    return grouped.agg(how).assign(selections=grouped.size()).reset_index()


def _figure(run: Run, choice: Choice, curve: Curve, table: pd.DataFrame) -> go.Figure:
    track, points = track_of(run), _pooled(run, table)
    level, drawn = track.level, points.dropna(subset=["value"])
    figure = blank(choice, 400, level.axis, curve.y_title)
    dense = drawn[drawn["method"] == "dense"]
    order = [name for name in track.order(set(drawn["method"]) - {"dense"}) if name != choice.method]
    order += [choice.method] if choice.method in set(drawn["method"]) - {"dense"} else []
    if curve.with_null:
        _null_band(run, figure, choice, drawn, dense)
    is_log = curve.may_be_log and needs_log(drawn["high"].fillna(drawn["value"]).tolist() + drawn["value"].tolist())
    if not dense.empty:
        figure.add_hline(y=float(dense["value"].iat[0]), line={"color": choice.theme.ink, "width": 1, "dash": "dot"})
    for index, method in enumerate(order):
        shift = index - (len(order) - 1) / 2
        line = _line(run, choice, curve.measure, drawn, dense, method, shift)
        figure.add_trace(line if method == choice.method or not _crowded(run, table) else line.update(error_y=None))
    _flags(run, figure, choice, drawn)
    if track.line_labels:
        _end_labels(run, figure, choice, drawn, order, dense, is_log)
    if level.is_ratio:
        ratio_axis(figure, drawn[level.realised], drawn[level.column])
    else:
        figure.update_xaxes(tickformat=".0%", nticks=5, tickangle=0)
    figure.update_yaxes(type="log" if is_log else "linear", nticks=6)
    figure.update_layout(showlegend=not track.line_labels)
    if not track.line_labels:  # room for the names above
        figure.update_layout(height=400 + 20 * math.ceil(len(order) / 2), legend={"font": {"size": 12}})
    return figure


def _null_band(run: Run, figure: go.Figure, choice: Choice, points: pd.DataFrame, dense: pd.DataFrame) -> None:
    """The chosen method's null band at each level; the dense model's where nothing is chosen."""
    at = track_of(run).level.realised
    mine = pd.concat([dense, points[points["method"] == choice.method]]).drop_duplicates(at)
    mine = mine[mine["null_high"].notna()].sort_values(at)
    if mine.empty:
        return
    x = mine[at].tolist() if len(mine) > 1 else [track_of(run).level.none, points[at].max()]
    low, high = (
        mine["null_low"].tolist() * (3 - min(len(mine), 2)),
        mine["null_high"].tolist() * (3 - min(len(mine), 2)),
    )
    figure.add_trace(go.Scatter(
        x=x + x[::-1], y=high + low[::-1], fill="toself", fillcolor=choice.theme.band, line={"width": 0},
        mode="lines", hoverinfo="skip", showlegend=False,
    ))  # fmt: skip
    place = math.log10(x[0]) if track_of(run).level.is_ratio else x[0]
    figure.add_annotation(
        x=place, y=low[0], text=track_of(run).null_label, showarrow=False, xanchor="left", yanchor="top",
        font={"size": 11, "color": choice.theme.soft}, xshift=4,
    )  # fmt: skip


def _line(
    run: Run, choice: Choice, measure: Measure, points: pd.DataFrame, dense: pd.DataFrame, method: str, shift: float
) -> go.Scatter:
    """One method from the dense model on; the chosen one heavier."""
    track, mine = track_of(run), points[points["method"] == method]
    start, at = dense.assign(low=math.nan, high=math.nan), track.level.realised
    joined = pd.concat([start, mine]).sort_values(at)
    style, chosen = track.style(method, choice.dark), method == choice.method
    bars = {"type": "data", "symmetric": False, "array": joined["high"] - joined["value"], "width": 0,
            "arrayminus": joined["value"] - joined["low"],
            "color": style.colour, "thickness": 2 if chosen else 1}  # fmt: skip
    line = {"color": style.colour, "width": 3 if chosen else 1.5}
    line |= {} if style.dash == "solid" else {"dash": style.dash}
    return go.Scatter(
        x=_beside(run, joined[at], shift, points[at].max()), y=joined["value"], error_y=bars, mode="lines+markers",
        name=words.method_name(method), line=line, opacity=1 if chosen else 0.85,
        marker=_marker(style, chosen),
        customdata=joined["variant"], text=[_hover(run, measure, row) for row in joined.to_dict("records")],
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _marker(style: Style, chosen: bool) -> dict[str, Any]:
    marker = {"symbol": style.symbol, "size": 10 if chosen else 7, "color": style.colour}
    return marker | ({"line": {"width": 2}} if "-open" in style.symbol else {})


def _beside(run: Run, places: pd.Series, shift: float, largest: float) -> list[float]:
    """Places on the x axis, moved a little so that the bars of several methods do not hide each other."""
    level = track_of(run).level
    if level.is_ratio:
        return [place * 2 ** (0.03 * shift) if place > level.none else place for place in places]
    step = 0.0035 * max(0.1, largest) / 0.2 * shift
    return [place + (step if place > level.none else 0) for place in places]


def _flags(run: Run, figure: go.Figure, choice: Choice, points: pd.DataFrame) -> None:
    """A mark on every point that the track says something is wrong with."""
    rows = [(row, text) for row in points.to_dict("records") if (text := track_of(run).flag(row))]
    if not rows:
        return
    colour = choice.theme.alarm
    figure.add_trace(go.Scatter(
        x=[row[track_of(run).level.realised] for row, _ in rows], y=[row["value"] for row, _ in rows], mode="markers",
        marker={"symbol": track_of(run).flag_symbol, "size": 13, "color": colour}, text=[text for _, text in rows],
        hovertemplate="%{text}<extra></extra>", name=f"degenerate {track_of(run).repeat}s",
    ))  # fmt: skip


def _hover(run: Run, measure: Measure, row: dict[str, Any]) -> str:
    if row["method"] == "dense":
        return f"<b>{track_of(run).whole}</b><br>{measure.number(row['value'])}"
    head = f"<b>{words.method_name(row['method'])}</b>, {track_of(run).reached(run, row)}"
    return f"{head}<br>{measure.with_interval(row)}<br>change {measure.change(row)}"


def _end_labels(
    run: Run, figure: go.Figure, choice: Choice, points: pd.DataFrame, order: list[str], dense: pd.DataFrame,
    is_log: bool,
) -> None:  # fmt: skip
    """Method names at the right end of their lines, moved apart where they would overlap."""
    ends = [(name, points[points["method"] == name].iloc[-1]["value"]) for name in order]
    ends += [("dense", float(value)) for value in dense["value"]]
    heights = [math.log10(value) if is_log else value for _, value in ends]
    column = points[["low", "high", "value", "null_low"]].to_numpy(dtype=float)
    column = [math.log10(value) if is_log else value for value in column[(column > 0) & (column < math.inf)]]
    room = 1.1 * (max(column) - min(column)) if column else 0.0
    room = room or 1.0
    for (name, _), place in zip(ends, apart(heights, room * 17 / 330), strict=True):
        text = "dense" if name == "dense" else words.method_name(name)
        bold = f"<b>{text}</b>" if name == choice.method else text
        figure.add_annotation(
            x=1, xref="paper", xshift=8, y=place, text=bold, showarrow=False, xanchor="left", yanchor="middle",
            font={"size": 12, "color": track_of(run).style(name, choice.dark).colour},
        )  # fmt: skip
    longest = max(len(words.method_name(name)) for name, _ in ends if name != "dense") if order else 5
    figure.update_layout(margin={"r": 20 + int(6.7 * longest)})


def _answer(run: Run, choice: Choice, curve: Curve, table: pd.DataFrame) -> str:
    """At the chosen level: what the chosen method does, then the others, from the interval of each change."""
    level, measure = track_of(run).level, curve.measure
    what = curve.said or measure.name
    points = _pooled(run, table[table["method"] != "dense"])
    if points.empty:
        return f"No variant's {measure.name} was measured here."
    at = choice.level if choice.level > level.none else points[level.column].max()
    here = points[at_level(points[level.column], at)]
    mine, parts = here[here["method"] == choice.method], []
    verbs = {"fell": "lowers", "rose": "raises", "unclear": "does not clearly change", "unknown": "has no interval for"}
    for row in mine.to_dict("records"):
        name = words.method_name(row["method"])
        if not math.isfinite(row["delta"]):  # a level that is about the change already
            parts.append(f"At {level.say(at)}, {what} of {name} is {measure.with_interval(row)}")
            continue
        parts.append(f"At {level.say(at)}, {name} {verbs[phrasing.direction(row)]} {what} ({measure.change(row)})")
    others = here[here["method"] != choice.method].to_dict("records")
    for kind, verb in (("fell", "lower"), ("rose", "raise"), ("unclear", "do not clearly change")):
        names = [words.method_name(row["method"]) for row in others if phrasing.direction(row) == kind]
        if names:
            parts.append(f"{phrasing.listing(names)} {verb if len(names) > 1 else verbs[kind]} it")
    return "; ".join(parts) + "." if parts else f"Nothing was measured at {level.say(at)}."


def _readable(run: Run, curve: Curve, table: pd.DataFrame) -> pd.DataFrame:
    names = {**track_of(run).columns, "value": "value", "low": "low", "high": "high", "delta": "change",
             "delta_low": "change low", "delta_high": "change high", "delta_p": "p of change", "n": "n"}  # fmt: skip
    if curve.with_null:
        names |= {"null_low": "null low", "null_high": "null high", "null_p": "p against null"}
    shown = table.assign(method=table["method"].map(words.method_name))
    return shown[[name for name in names if name in shown]].rename(columns=names)

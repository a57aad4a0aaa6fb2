"""Quality against harm: what less harm costs, for every method and level."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.levels import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import null_warning
from engine.report.charts.panel import Choice, Panel, blank, needs_log, nothing
from engine.report.tracks import track_of
from engine.stats.pareto import front
from engine.store.runs import Run


def pareto(run: Run, choice: Choice, split: str = lookup.REPORTED) -> Panel:
    """Every variant as a point. `split` names a view of the track: other splits, variants that are not reported.

    Each point carries its variant id as customdata[0].
    """
    track, reading = track_of(run), lookup.reading(run, choice)
    question, view = track.pareto_question(run, choice), track.views[split]
    table = points(run, choice, split)
    if len(table) < 2:
        both = f"{reading.harm.name} and {reading.quality.name} on {view.split} {track.items}"
        return nothing("pareto", question, f"Fewer than two variants have {both}.")
    figure = _figure(run, choice, table)
    more = f"Shows {view.said}. The front is read from point values; intervals overlap more than it suggests."
    answer = f"{null_warning(run, choice)} {_answer(run, choice, table)}".strip()
    note = lookup.caveat(run, lookup.harm(run, "dense", choice, view.split), view.split, more)
    return Panel("pareto", question, answer, figure, _readable(run, choice, table), note)


def points(run: Run, choice: Choice, split: str) -> pd.DataFrame:
    """One row per variant of this target axis or none: harm (value) and quality (value_q) with intervals, on the
    front or not."""
    reading, view = lookup.reading(run, choice), track_of(run).views[split]
    mine = variants_of(run, choice, split)
    rows = lookup.frame(run, "results")
    rows = rows[rows["split"] == view.split]
    columns = ["variant", "value", "low", "high", "null_low", "null_high", "n", "delta", "delta_low", "delta_high"]
    harm = rows[(rows["metric"] == reading.harm.metric) & (rows["axis"] == choice.measured)][columns]
    quality = rows[(rows["metric"] == reading.quality.metric) & (rows["axis"] == "")]
    quality = quality[["variant", "value", "low", "high", "delta", "delta_low", "delta_high"]]
    table = mine.merge(harm, on="variant").merge(quality, on="variant", suffixes=("", "_q"))
    table = table[table["value"].notna() & table["value_q"].notna()]
    table = table[table["method"].isin({"dense", *track_of(run).uncut}) | (table["n_cut"] > 0)]
    table = table.assign(competes=_competing(run, choice, table))
    quality, harm = (table[name].where(table["competes"]) for name in ("value_q", "value"))
    best = front(reading.quality.sign * quality, reading.harm.sign * harm)
    return table.assign(front=best).reset_index(drop=True)


def _competing(run: Run, choice: Choice, table: pd.DataFrame) -> pd.Series:
    """Which variants the front is among: all, or the reported ones that are cut as much as the chosen one."""
    track = track_of(run)
    if not track.fronts_at_level:
        return pd.Series(True, index=table.index)
    return table["chosen"].astype(bool) & at_level(table[track.level.column], level_of(run, choice))


def level_of(run: Run, choice: Choice) -> float:
    """The chosen level; where nothing is cut, the one at which a reader starts."""
    level = track_of(run).level
    cut = [value for value in sorted(lookup.reported(run)[level.column].unique()) if value > level.none]
    return choice.level if choice.level > level.none or not cut else level.first(cut)


def variants_of(run: Run, choice: Choice, split: str) -> pd.DataFrame:
    """The variants that are points of a view."""
    track = track_of(run)
    mine = lookup.of_axis(run, lookup.frame(run, "variants"), choice.axis)
    if not track.views[split].everything:
        mine = mine[mine["chosen"].astype(bool)]
    return mine[mine["method"].isin({"dense", *track.compared(list(mine["method"].unique()), choice.method)})]


def _figure(run: Run, choice: Choice, table: pd.DataFrame) -> go.Figure:
    track, reading = track_of(run), lookup.reading(run, choice)
    figure = blank(choice, 520, reading.quality.title, reading.harm.title)
    _null_band(run, figure, choice, table)
    best = table[table["front"]].sort_values(["value_q", "value"])
    figure.add_trace(go.Scatter(
        x=best["value_q"], y=best["value"], mode="lines", line={"shape": "vh", "width": 1.2, "dash": "dot",
        "color": choice.theme.ink}, name="front", hoverinfo="skip",
    ))  # fmt: skip
    for method in ["dense", *track.order(set(table["method"]) - {"dense"})]:
        if method in set(table["method"]):
            mine = table[table["method"] == method]
            _add_points(run, figure, choice, mine, method)
    _flags(run, figure, choice, table)
    _ring(figure, choice, table, lookup.variant_of(run, choice)["variant"])
    is_log = needs_log([*table["value_q"], *table["high_q"].dropna()])
    figure.update_xaxes(type="log" if is_log else "linear", showgrid=True, nticks=6, tickangle=0)
    figure.update_yaxes(nticks=6)
    longest = max(len(lookup.method_label(run, method)) for method in set(table["method"]))
    figure.update_layout(legend={"entrywidth": max(104, int(5.7 * longest)), "font": {"size": 11}})
    return figure


def _null_band(run: Run, figure: go.Figure, choice: Choice, table: pd.DataFrame) -> None:
    dense = table[(table["method"] == "dense") & table["null_high"].notna()]
    if dense.empty:
        return
    low, high = float(dense["null_low"].iat[0]), float(dense["null_high"].iat[0])
    figure.add_hrect(y0=low, y1=high, fillcolor=choice.theme.band, line_width=0, layer="below")
    crowded = lookup.reading(run, choice).quality.sign < 0  # good variants meet on that side
    figure.add_annotation(
        x=0 if crowded else 1, xref="paper", y=low, text=track_of(run).null_label, showarrow=False,
        xanchor="left" if crowded else "right", yanchor="bottom", font={"size": 11, "color": choice.theme.soft},
    )  # fmt: skip


def _add_points(run: Run, figure: go.Figure, choice: Choice, table: pd.DataFrame, method: str) -> None:
    """The points of a method; those that do not compete for the front stay in the background."""
    front, back = table[table["competes"]], table[~table["competes"]]
    if method == "dense" or back.empty:
        figure.add_trace(_points(run, choice, table, method))
        return
    figure.add_trace(_points(run, choice, front, method).update(legendgroup=method, showlegend=True))
    figure.add_trace(_points(run, choice, back, method).update(legendgroup=method, showlegend=False, opacity=0.35))


def _points(run: Run, choice: Choice, table: pd.DataFrame, method: str) -> go.Scatter:
    style = track_of(run).style(method, choice.dark)
    colour, soft = style.colour, _faint(style.colour)
    outlined = method == "dense" or "-open" in style.symbol
    bars = {"type": "data", "symmetric": False, "color": soft, "thickness": 1, "width": 0}
    sizes = 8 + 22 * table["realised"].clip(0, 0.5)
    return go.Scatter(
        x=table["value_q"], y=table["value"], mode="markers", name=lookup.method_label(run, method),
        error_x={**bars, "array": table["high_q"] - table["value_q"],
                 "arrayminus": table["value_q"] - table["low_q"]},
        error_y={**bars, "array": table["high"] - table["value"], "arrayminus": table["value"] - table["low"]},
        marker={"color": colour, "opacity": 1, "symbol": style.symbol, "size": sizes,
                "line": {"width": 2 if outlined else 0, "color": colour}},
        customdata=table[["variant"]].to_numpy(), text=[_hover(run, choice, row) for row in table.to_dict("records")],
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[index : index + 2], 16) for index in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.3)"


def _flags(run: Run, figure: go.Figure, choice: Choice, table: pd.DataFrame) -> None:
    """A mark on every variant that the track says something is wrong with."""
    wrong = table[[bool(track_of(run).flag(row)) for row in table.to_dict("records")]]
    if wrong.empty:
        return
    figure.add_trace(go.Scatter(
        x=wrong["value_q"], y=wrong["value"], mode="markers", hoverinfo="skip",
        name=f"degenerate {track_of(run).repeat}s",
        marker={"symbol": track_of(run).flag_symbol, "size": 9, "color": choice.theme.alarm},
    ))  # fmt: skip


def _ring(figure: go.Figure, choice: Choice, table: pd.DataFrame, variant: str) -> None:
    """A ring around the variant the reader chose."""
    mine = table[table["variant"] == variant]
    if mine.empty:
        return
    marker = {"symbol": "circle-open", "size": 24, "color": choice.theme.ink, "line": {"width": 2}}
    figure.add_trace(go.Scatter(
        x=mine["value_q"], y=mine["value"], mode="markers", marker=marker, hoverinfo="skip", name="your choice",
        customdata=mine[["variant"]].to_numpy(),
    ))  # fmt: skip


def _hover(run: Run, choice: Choice, row: dict[str, Any]) -> str:
    track, reading = track_of(run), lookup.reading(run, choice)
    text = f"<b>{lookup.variant_label(run, row)}</b>{track.mark(row)}"
    if row["n_cut"]:
        text += f"<br>{track.cut_of(run, row)}"
    text += f"<br>{reading.harm.name} {reading.harm.with_interval(row)}"
    text += f"<br>{reading.quality.name} {reading.quality.with_interval(row, '_q')}"
    flag = track.flag(row)
    return text + ("<br>on the front" if row["front"] else "") + (f"<br>{flag}" if flag else "")


def _answer(run: Run, choice: Choice, table: pd.DataFrame) -> str:
    """Who is on the front, and whether the chosen variant is, or which variant beats it at both."""
    quality, harm = (one.sign for one in (lookup.reading(run, choice).quality, lookup.reading(run, choice).harm))
    best = table[table["front"]].sort_values("value_q", ascending=quality > 0)
    names = [_named(run, row) for row in best.to_dict("records")]
    track, competing = track_of(run), table[table["competes"]]
    where = f" at {track.level.say(level_of(run, choice))}" if track.fronts_at_level else ""
    verb = "is" if len(best) == 1 else "are"
    text = f"{len(best)} of {len(competing)} variants{where} {verb} on the front: {phrasing.listing(names)}."
    chosen = lookup.variant_of(run, choice)["variant"]
    mine = table[table["variant"] == chosen]
    if not mine.empty and not bool(mine["competes"].iat[0]):
        return text
    if mine.empty:
        return f"{text} The chosen variant was not measured on these prompts."
    if bool(mine["front"].iat[0]):
        return f"{text} No variant beats {_named(run, mine.iloc[0].to_dict())} at both."
    x, y = quality * float(mine["value_q"].iat[0]), harm * float(mine["value"].iat[0])
    no_worse = (quality * table["value_q"] <= x) & (harm * table["value"] <= y)
    beats = table[no_worse & (table["variant"] != chosen) & table["front"]]
    by = phrasing.listing([_named(run, row) for row in beats.to_dict("records")], 3)
    return f"{text} {_named(run, mine.iloc[0].to_dict())} is beaten at both by {by}."


def _named(run: Run, row: dict[str, Any]) -> str:
    track = track_of(run)
    if row["method"] == "dense":
        return f"the {track.whole}"
    mark = track.mark(row).replace(" = ", " ")
    return f"{words.method_name(row['method'])} ({track.level.say(row[track.level.column])}{mark})"


def _readable(run: Run, choice: Choice, table: pd.DataFrame) -> pd.DataFrame:
    track, reading = track_of(run), lookup.reading(run, choice)
    harm, quality = reading.harm.name, reading.quality.name
    names = {"variant": "variant", **track.marks, "value": harm, "low": f"{harm} low", "high": f"{harm} high",
             "value_q": quality, "low_q": f"{quality} low", "high_q": f"{quality} high", "front": "on the front",
             "n": track.items}  # fmt: skip
    shown = table.assign(method=[lookup.method_label(run, method) for method in table["method"]])
    return shown[list(names)].rename(columns=names)

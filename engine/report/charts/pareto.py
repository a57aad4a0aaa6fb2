"""Quality against harm: what less harm costs, for every method and level."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values, at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import null_warning
from engine.report.charts.kinds import add_points, bars_of, dot, faint, front_line, heading, silent
from engine.report.charts.lookup import View
from engine.report.charts.metric_curve import GROUP, WORDS, bands_in, draw_level, name_bands
from engine.report.charts.panel import (
    Choice,
    Panel,
    apart,
    blank,
    needs_log,
    nothing,
    scale,
    wrapped,
)
from engine.report.schema import readable
from engine.report.tracks import Chance, track_of
from engine.stats.pareto import front
from engine.store.runs import Run

RING = "your choice"
ROOM, LINE = 0.3, 20
"""For names on the side of the better quality: a share of the width that is added, and letters in a
line."""


def pareto(run: Run, choice: Choice, split: str = lookup.REPORTED) -> Panel:
    """Every variant as a point. `split` names a view of the track: other splits, variants that are
    not reported.

    Each point carries its variant id as customdata[0].
    """
    view = View(run, choice)
    track, harm, quality = view.track, view.reading.harm, view.reading.quality
    question, of = track.front.question(run, choice), track.front.views[split]
    table, absent = points(run, choice, split), lookup.not_built(run, choice.axis)
    if len(table) < 2:
        both = f"{harm.name} and {quality.name} on {of.split} {track.nouns.items}"
        return nothing("pareto", question, f"Fewer than two variants have {both}. {absent}".strip())
    chance = track.front.chance(run, choice) if split == lookup.REPORTED else None
    figures = _figures(view, table, chance)
    more = f"Shows {of.said}. The front uses point values; intervals overlap more than it suggests."
    more += "" if table["competes"].all() else " Variants at other levels are faint."
    answer, rest = _answer(view, table)
    if warning := null_warning(run, choice):
        rest = f"{answer} {rest}".strip()
        answer = f"None can be called best: the {harm.name} before any cut could be chance alone."
    mind = " ".join(filter(None, (warning, absent, chance.said if chance else "")))
    note = lookup.caveat(run, lookup.harm(run, "dense", choice, of.split), of.split, more)
    whole, parts = (figures[0], ()) if len(figures) == 1 else (None, figures)
    bands = bands_in(run, table[table["method"] == "dense"], harm.null_label)
    if parts and len(bands) > 1:  # no room for their names in the legend of half a chart
        note = f"{note} Grey: {bands[WORDS]}. Dashed: {bands[GROUP]}."
    shown = _shown(view, table)
    return Panel(
        "pareto", question, answer, whole, shown, note, parts, own_axes=True, mind=mind, more=rest
    )


def points(run: Run, choice: Choice, split: str) -> pd.DataFrame:
    """One row per variant of this target axis or none: harm (value) and quality (value_q) with
    intervals, on the front or not."""
    track, reading = track_of(run), lookup.reading(run, choice)
    table, of = variants_of(run, choice, split), track.front.views[split].split
    for measure, suffix in ((reading.harm, ""), (reading.quality, "_q")):
        rows = lookup.results_of(run, measure, choice, of)
        table = table.merge(rows, on="variant", suffixes=("", suffix))
    table = table[table["value"].notna() & table["value_q"].notna()]
    table = table[table["method"].isin({"dense", *track.ways.uncut}) | lookup.is_change(table)]
    competes = pd.Series(True, index=table.index)
    if track.front.at_level:  # only those that are cut as much as the chosen one
        here = at_level(table[track.level.column], lookup.level_of(run, choice))
        competes = table["chosen"].astype(bool) & here
    better, less = (table[name].where(competes) for name in ("value_q", "value"))
    best = front(reading.quality.sign * better, reading.harm.sign * less)
    return table.assign(competes=competes, front=best).reset_index(drop=True)


def variants_of(run: Run, choice: Choice, split: str) -> pd.DataFrame:
    """The variants that are points of a view."""
    track = track_of(run)
    rows = lookup.of_axis(run, lookup.frame(run, "variants"), choice.axis)
    if not track.front.views[split].everything:
        rows = rows[rows["chosen"].astype(bool)]
    compared = track.methods.compared(list(rows["method"].unique()), choice.method)
    return rows[rows["method"].isin({"dense", *compared})]


def _figures(view: View, table: pd.DataFrame, chance: Chance | None) -> tuple[go.Figure, ...]:
    """All points; where most of them share a small part of the width, that part once more beside
    it. The points of the front are named where they have room."""
    whole = _figure(view, table, chance)
    is_log = whole.layout.xaxis.type == "log"
    if (near := crowd(table, is_log)) is None:
        _name_front(view, whole, table)
        return (whole,)
    close, x, y = _figure(view, table, chance), *near
    close.update_xaxes(range=[math.log10(end) for end in x] if is_log else list(x), nticks=5)
    close.update_yaxes(range=list(y)).update_layout(showlegend=False)
    inside = table["value_q"].between(*x) & table["value"].between(*y)
    _name_front(view, close, table[inside])
    line = {"color": view.choice.theme.soft, "width": 1}
    ends = [10**end if is_log else end for end in close.layout.xaxis.range]
    whole.add_shape(type="rect", x0=ends[0], x1=ends[1], y0=y[0], y1=y[1], line=line)
    heading(whole, "All variants")
    heading(close, "Zoom")
    for figure in (whole, close):
        figure.update_layout(margin={"t": 40}, legend={"y": -0.22, "yanchor": "top"}, height=470)
        figure.update_traces(
            selector=lambda trace: (trace.name or "").startswith("null band"), showlegend=False
        )
    return whole, close


def crowd(
    table: pd.DataFrame, is_log: bool
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """The part of the chart where seven tenths of the points share less than a third of the width,
    as (from, to) on both axes with a little room. None where they do not crowd. Its height holds
    their intervals' middles only. is_log: of the width.
    """
    places = np.log10(table["value_q"]) if is_log else table["value_q"]
    x = places.sort_values().to_numpy()
    most = math.ceil(0.7 * len(x))
    if len(x) < 8:
        return None
    widths = x[most - 1 :] - x[: len(x) - most + 1]
    start = int(widths.argmin())
    low, high = float(x[start]), float(x[start + most - 1])
    if high - low > (x[-1] - x[0]) / 3 or high <= low:
        return None
    inside = table[places.between(low, high)]["value"]
    room, tall = 0.15 * (high - low), 0.1 * float(inside.max() - inside.min())
    ends = low - room, high + room
    x_ends = (10 ** ends[0], 10 ** ends[1]) if is_log else ends
    return x_ends, (float(inside.min()) - tall, float(inside.max()) + tall)


def _name_front(view: View, figure: go.Figure, table: pd.DataFrame) -> None:
    """Names of the front's points, each with a line to its point, apart from each other. They stand
    on the side of the better quality, where no point can be, and a little lower.
    """
    best = table[table["front"]].sort_values("value", kind="stable").to_dict("records")
    if not best:
        return
    low, high = figure.layout.yaxis.range or _reach(table, "")
    pixel, side = 330 / ((high - low) or 1.0), -view.reading.quality.sign
    is_log, heights = figure.layout.xaxis.type == "log", [row["value"] * pixel for row in best]
    look = {"font": {"size": 11}, "arrowwidth": 0.8, "arrowhead": 0, "standoff": 7, "ax": 30 * side}
    look |= {"arrowcolor": view.choice.theme.soft, "xanchor": "left" if side > 0 else "right"}
    names = [wrapped(_short(view, row), LINE) for row in best]
    gap = 3 + 13 * max(name.count("<br>") + 1 for name in names)
    places = zip(best, names, heights, apart(heights, gap), strict=True)
    for row, name, height, place in places:
        x, y = math.log10(row["value_q"]) if is_log else row["value_q"], row["value"]
        figure.add_annotation(x=x, y=y, text=name, align="left", ay=height - place + 12, **look)
    if ends := list(figure.layout.xaxis.range or (() if is_log else _reach(table, "_q"))):
        ends[side > 0] += side * ROOM * (ends[1] - ends[0])
        figure.update_xaxes(range=ends)


def _reach(table: pd.DataFrame, column: str) -> tuple[float, float]:
    """From the lowest to the highest end of all intervals, with a little room."""
    ends = table[[f"{name}{column}" for name in ("value", "low", "high")]]
    ends = ends.replace([math.inf, -math.inf], math.nan)
    low, high = float(ends.min().min()), float(ends.max().max())
    room = 0.05 * (high - low)
    return low - room, high + room


def _short(view: View, row: Values) -> str:
    level, name = view.track.level, lookup.method_label(view.run, row["method"])
    is_whole = row[level.column] == level.none or row["method"] == "dense"
    return name if is_whole else f"{name}, {lookup.level_said(view.run, row)}"


def _figure(view: View, table: pd.DataFrame, chance: Chance | None) -> go.Figure:
    track, reading, choice = view.track, view.reading, view.choice
    figure = blank(choice, 520, reading.quality.title, reading.harm.title)
    _null_band(view, figure, table)
    if chance is not None and len(chance.points):  # cuts by chance, behind everything else
        marker = {"symbol": "circle-open", "size": 7, "color": choice.theme.soft}
        marker["line"] = {"width": 1.5}
        look = {"mode": "markers", "name": chance.name, "showlegend": True, "opacity": 0.8}
        silent(figure, chance.points["value_q"], chance.points["value"], marker=marker, **look)
    best = table[table["front"]].sort_values(["value_q", "value"])
    front_line(figure, choice, best["value_q"], best["value"], name="front", showlegend=None)
    known = set(table["method"])
    for method in ["dense", *track.methods.order(known - {"dense"})]:
        if method in known:
            _add_method(view, figure, table[table["method"] == method], method)
    wrong = table[[bool(track.flags.of(row)) for row in table.to_dict("records")]]
    look = {"symbol": track.flags.symbol, "size": 9, "color": choice.theme.alarm}
    _mark(figure, wrong, f"degenerate {track.nouns.repeat}s", **look)
    mine = table[table["variant"] == view.name]
    look = {"symbol": "circle-open", "size": 24, "color": choice.theme.ink}
    _mark(figure, mine, RING, **look, line={"width": 2})
    is_log = needs_log([*table["value_q"], *table["high_q"].dropna()])
    figure.update_xaxes(**scale(is_log), showgrid=True, nticks=6, tickangle=0)
    figure.update_yaxes(nticks=6)
    figure.update_layout(legend={"font": {"size": 11}})
    return figure


def _null_band(view: View, figure: go.Figure, table: pd.DataFrame) -> None:
    dense = table[(table["method"] == "dense") & table["null_high"].notna()]
    if dense.empty:
        return
    bands = bands_in(view.run, dense, view.reading.harm.null_label)
    for start in bands:
        draw_level(figure, view.choice, start, dense.iloc[0].to_dict())
    crowded = view.reading.quality.sign < 0  # good variants meet on that side
    side = {"x": 0, "xanchor": "left"} if crowded else {"x": 1, "xanchor": "right"}
    low = float(dense["null_low"].iat[0])
    name_bands(figure, view.choice, bands, **side, xref="paper", y=low, yanchor="bottom")


def _add_method(view: View, figure: go.Figure, table: pd.DataFrame, method: str) -> None:
    """Points of a method with both intervals, the larger the more is cut; those that do not compete
    for the front stay in the background."""
    competes, both = table["competes"], {"name": lookup.method_label(view.run, method)}
    sides: list[tuple[pd.DataFrame, dict[str, Any]]] = [(table, both)]
    if method != "dense" and not competes.all():
        both["legendgroup"] = method
        behind = {**both, "showlegend": False, "opacity": 0.35}
        sides = [(table[competes], {**both, "showlegend": True}), (table[~competes], behind)]
    style = lookup.look_of(view.run, view.choice, method)
    soft, rim = faint(style.colour, 0.3), 2 if method == "dense" or "-open" in style.symbol else 0
    for rows, more in sides:
        marker = {
            **dot(style, 0, rim),
            "opacity": 1,
            "size": 8 + 22 * rows["realised"].clip(0, 0.5),
        }
        marker["symbol"] = lookup.symbols(rows, style.symbol)
        bars = {
            "error_x": bars_of(rows, "value_q", soft, 1),
            "error_y": bars_of(rows, "value", soft, 1),
        }
        texts = [_hover(view, row) for row in rows.to_dict("records")]
        ids = rows[["variant"]].to_numpy()
        add_points(
            figure, rows["value_q"], rows["value"], texts, marker, customdata=ids, **bars, **more
        )


def _mark(figure: go.Figure, table: pd.DataFrame, name: str, **marker: Any) -> None:
    """Marks around or behind points, that are only in the legend."""
    look = {"mode": "markers", "marker": marker, "name": name, "showlegend": None}
    if name == RING:
        look["customdata"] = table[["variant"]].to_numpy()
    if len(table):
        silent(figure, table["value_q"], table["value"], **look)


def _hover(view: View, row: Values) -> str:
    track, reading = view.track, view.reading
    lines = [
        f"<b>{lookup.variant_label(view.run, row)}</b>{track.variants.mark(row)}",
        track.variants.cut_of(view.run, row) if row["variant"] != "dense" else "",
        f"{reading.harm.name} {reading.harm.with_interval(row)}",
        f"{reading.quality.name} {reading.quality.with_interval(row, '_q')}",
        "on the front" if row["front"] else "",
        track.flags.of(row),
    ]
    return "<br>".join(filter(None, lines))


def _shown(view: View, table: pd.DataFrame) -> pd.DataFrame:
    """The table for people: what each variant is, since ids are for masks and files."""
    run, track, reading = view.run, view.track, view.reading
    heads = {**track.variants.titles, "n": reading.harm.of_what or track.nouns.items}
    heads |= {"value": reading.harm.name, "value_q": reading.quality.name}
    said = [
        f"{lookup.variant_label(run, row)}{track.variants.mark(row)}"
        for row in table.to_dict("records")
    ]
    methods = [lookup.method_label(run, method) for method in table["method"]]
    named = table.assign(variant=said, method=methods)
    names = f"variant {track.front.marks}"
    return readable(named, f"{names} value low high value_q low_q high_q front n", **heads)


def _answer(view: View, table: pd.DataFrame) -> tuple[str, str]:
    """Whether the chosen variant is on the front, or which variant beats it at both; then which are
    on it."""
    run, track = view.run, view.track
    quality, harm = view.reading.quality.sign, view.reading.harm.sign
    best = table[table["front"]].sort_values("value_q", ascending=quality > 0, kind="stable")
    level = lookup.level_of(run, view.choice)
    where = f" at {track.level.say(level)}" if track.front.at_level else ""
    competing, verb = int(table["competes"].sum()), "is" if len(best) == 1 else "are"
    text = f"{len(best)} of {competing} variants{where} {verb} on the front: {_names(run, best)}."
    rows = table[table["variant"] == view.name]
    if rows.empty:
        return "The chosen variant is not among these points.", text
    mine, name = rows.iloc[0], _names(run, rows)
    if not mine["competes"]:
        return text, ""
    if mine["front"]:
        among = f"Among the {competing} variants{where}, none" if where else "No variant"
        return f"{among} beats {name} at both.", text
    x, y = quality * float(mine["value_q"]), harm * float(mine["value"])
    no_worse = (quality * table["value_q"] <= x) & (harm * table["value"] <= y)
    beats = table[no_worse & (table["variant"] != view.name) & table["competes"]]
    beats = beats.sort_values("front", ascending=False, kind="stable")
    start = f"{phrasing.sentence(name)} is beaten at both by {_names(run, beats, 3)}"
    return f"{start}, in measured values; {_parted(beats, mine, quality, harm)}.", text


def _parted(beats: pd.DataFrame, mine: pd.Series, quality: int, harm: int) -> str:
    """Of how many of those that beat the chosen one the intervals of both numbers are apart from
    its own."""
    both = np.ones(len(beats), dtype=bool)
    for sign, end in ((quality, "_q"), (harm, "")):
        low, high = f"low{end}", f"high{end}"
        theirs = (sign * beats[[low, high]].astype(float)).max(axis=1, skipna=False)
        both &= (theirs < min(sign * mine[low], sign * mine[high])).to_numpy()  # no interval: False
    if both.all():
        return "intervals of both numbers are apart"
    some = f"intervals of both numbers are apart for {both.sum()} of {len(both)}"
    return some if both.any() else "intervals of one number or both overlap"


def _names(run: Run, table: pd.DataFrame, most: int = 6) -> str:
    """Variants in a sentence."""
    track, told = track_of(run), []
    for row in table.to_dict("records"):
        mark = track.variants.mark(row).replace(" = ", " ") + track.front.draw(row)
        level = f"{lookup.level_said(run, row)}{mark}"
        is_dense = row["method"] == "dense"
        name = words.method_name(row["method"])
        told.append(f"the {track.nouns.whole}" if is_dense else f"{name} ({level})")
    return phrasing.listing(told, most)

"""Quality against harm: what less harm costs, for every method and level."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import null_warning
from engine.report.charts.marks import add_points, bars_of, dot, faint, front_line, heading, silent
from engine.report.charts.null_bands import GROUP, WORDS, bands_in, draw_level, name_bands
from engine.report.charts.panel import Choice, Panel, apart, blank, needs_log, nothing, wrapped
from engine.report.contract import Chance
from engine.report.schema import readable
from engine.report.tracks import track_of
from engine.stats.pareto import front
from engine.store.runs import Run

ROOM, LINE = 0.3, 20
"""For names on the side of the better quality: a share of the width that is added, and letters in a
line."""


def pareto(run: Run, choice: Choice, split: str = lookup.REPORTED) -> Panel:
    """Every variant as a point. `split` names a view of the track: other splits, variants that are
    not reported.

    Each point carries its variant id as customdata[0].
    """
    track, reading = track_of(run), lookup.reading(run, choice)
    question, view = track.pareto_question(run, choice), track.views[split]
    table = points(run, choice, split)
    if len(table) < 2:
        both = f"{reading.harm.name} and {reading.quality.name} on {view.split} {track.items}"
        absent = lookup.not_built(run, choice.axis)
        return nothing("pareto", question, f"Fewer than two variants have {both}. {absent}".strip())
    chance = track.chance(run, choice) if split == lookup.REPORTED else None
    figures = _figures(run, choice, table, chance)
    more = (
        f"Shows {view.said}. The front uses point values; intervals overlap more than it suggests."
    ) + (" Variants at other levels are faint." if not table["competes"].all() else "")
    answer, rest = _answer(run, choice, table)
    absent = lookup.not_built(run, choice.axis)
    warning = null_warning(run, choice)
    if warning:
        name = reading.harm.name
        rest = f"{answer} {rest}".strip()
        answer = f"Which is best cannot be said: the {name} before any cut could be chance alone."
    mind = " ".join(filter(None, (warning, absent, chance.said if chance else "")))
    note = lookup.caveat(run, lookup.harm(run, "dense", choice, view.split), view.split, more)
    whole, parts = (figures[0], ()) if len(figures) == 1 else (None, figures)
    bands = bands_in(run, table[table["method"] == "dense"], reading.harm.null_label)
    if parts and len(bands) > 1:  # no room for their names in the legend of half a chart
        note = f"{note} Grey: {bands[WORDS]}. Dashed: {bands[GROUP]}."
    shown = _shown(run, choice, table)
    return Panel(
        "pareto", question, answer, whole, shown, note, parts, own_axes=True, mind=mind, more=rest
    )


def points(run: Run, choice: Choice, split: str) -> pd.DataFrame:
    """One row per variant of this target axis or none: harm (value) and quality (value_q) with
    intervals, on the front or not."""
    reading, view = lookup.reading(run, choice), track_of(run).views[split]
    mine = variants_of(run, choice, split)
    harm, quality = (
        lookup.results_of(run, measure, choice, view.split)
        for measure in (reading.harm, reading.quality)
    )
    table = mine.merge(harm, on="variant").merge(quality, on="variant", suffixes=("", "_q"))
    table = table[table["value"].notna() & table["value_q"].notna()]
    table = table[table["method"].isin({"dense", *track_of(run).uncut}) | lookup.is_change(table)]
    table = table.assign(competes=_competing(run, choice, table))
    better, less = (table[name].where(table["competes"]) for name in ("value_q", "value"))
    best = front(reading.quality.sign * better, reading.harm.sign * less)
    return table.assign(front=best).reset_index(drop=True)


def _competing(run: Run, choice: Choice, table: pd.DataFrame) -> pd.Series:
    """Which variants the front is among: all, or the reported ones that are cut as much as the
    chosen one."""
    track = track_of(run)
    if not track.fronts_at_level:
        return pd.Series(True, index=table.index)
    return table["chosen"].astype(bool) & at_level(
        table[track.level.column], lookup.level_of(run, choice)
    )


def variants_of(run: Run, choice: Choice, split: str) -> pd.DataFrame:
    """The variants that are points of a view."""
    track = track_of(run)
    mine = lookup.of_axis(run, lookup.frame(run, "variants"), choice.axis)
    if not track.views[split].everything:
        mine = mine[mine["chosen"].astype(bool)]
    return mine[
        mine["method"].isin(
            {"dense", *track.compared(list(mine["method"].unique()), choice.method)}
        )
    ]


def _figures(
    run: Run, choice: Choice, table: pd.DataFrame, chance: Chance | None
) -> tuple[go.Figure, ...]:
    """All points; where most of them share a small part of the width, that part once more beside
    it. The points of the front are named where they have room."""
    whole, near = _figure(run, choice, table, chance), crowd(table)
    if near is None:
        _name_front(run, whole, choice, table)
        return (whole,)
    close, x, y = _figure(run, choice, table, chance), *near
    is_log = close.layout.xaxis.type == "log"
    close.update_xaxes(range=[math.log10(end) for end in x] if is_log else list(x), nticks=5)
    close.update_yaxes(range=list(y))
    close.update_layout(showlegend=False)
    _name_front(
        run, close, choice, table[table["value_q"].between(*x) & table["value"].between(*y)]
    )
    whole.add_shape(
        type="rect",
        x0=x[0],
        x1=x[1],
        y0=y[0],
        y1=y[1],
        line={"color": choice.theme.soft, "width": 1},
    )
    heading(whole, "All variants")
    heading(close, "Zoom")
    for figure in (whole, close):
        figure.update_layout(margin={"t": 40}, legend={"y": -0.22, "yanchor": "top"}, height=470)
        figure.update_traces(
            selector=lambda trace: (trace.name or "").startswith("null band"), showlegend=False
        )
    return whole, close


def crowd(table: pd.DataFrame) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """The part of the chart where seven tenths of the points share less than a third of the width,
    as (from, to) on both axes with a little room. None where they do not crowd. Its height holds
    their intervals' middles only.
    """
    x = table["value_q"].sort_values().to_numpy()
    most = math.ceil(0.7 * len(x))
    if len(x) < 8 or x[0] <= 0:
        return None
    widths = x[most - 1 :] - x[: len(x) - most + 1]
    start = int(widths.argmin())
    low, high = float(x[start]), float(x[start + most - 1])
    if high - low > (x[-1] - x[0]) / 3 or high <= low:
        return None
    inside = table[table["value_q"].between(low, high)]["value"]
    room, tall = 0.15 * (high - low), 0.1 * float(inside.max() - inside.min())
    return (low - room, high + room), (float(inside.min()) - tall, float(inside.max()) + tall)


def _name_front(run: Run, figure: go.Figure, choice: Choice, table: pd.DataFrame) -> None:
    """Names of the front's points, each with a line to its point, apart from each other. They stand
    on the side of the better quality, where no point can be, and a little lower.
    """
    best = table[table["front"]].sort_values("value")
    if best.empty:
        return
    low, high = figure.layout.yaxis.range or _reach(table, "")
    pixel, side = 330 / ((high - low) or 1.0), -lookup.reading(run, choice).quality.sign
    is_log, heights = (
        figure.layout.xaxis.type == "log",
        [float(value) * pixel for value in best["value"]],
    )
    look = {"font": {"size": 11}, "arrowwidth": 0.8, "arrowhead": 0, "standoff": 7, "ax": 30 * side}
    look |= {"arrowcolor": choice.theme.soft, "xanchor": "left" if side > 0 else "right"}
    names = [wrapped(_short(run, row), LINE) for row in best.to_dict("records")]
    gap = 3 + 13 * max(name.count("<br>") + 1 for name in names)
    for row, name, height, place in zip(
        best.to_dict("records"), names, heights, apart(heights, gap), strict=True
    ):
        x = math.log10(row["value_q"]) if is_log else row["value_q"]
        figure.add_annotation(
            x=x, y=row["value"], text=name, align="left", ay=height - place + 12, **look
        )
    if not is_log:
        ends = list(figure.layout.xaxis.range or _reach(table, "_q"))
        ends[side > 0] += side * ROOM * (ends[1] - ends[0])
        figure.update_xaxes(range=ends)


def _reach(table: pd.DataFrame, column: str) -> tuple[float, float]:
    """From the lowest to the highest end of all intervals, with a little room."""
    ends = table[[f"{name}{column}" for name in ("value", "low", "high")]].replace(
        [math.inf, -math.inf], math.nan
    )
    low, high = float(ends.min().min()), float(ends.max().max())
    room = 0.05 * (high - low)
    return low - room, high + room


def _short(run: Run, row: dict[str, Any]) -> str:
    track = track_of(run)
    if row["method"] == "dense":
        return lookup.method_label(run, "dense")
    name, level = words.method_name(row["method"]), row[track.level.column]
    return name if level == track.level.none else f"{name}, {track.level.say(level)}"


def _figure(run: Run, choice: Choice, table: pd.DataFrame, chance: Chance | None) -> go.Figure:
    track, reading = track_of(run), lookup.reading(run, choice)
    figure = blank(choice, 520, reading.quality.title, reading.harm.title)
    _null_band(run, figure, choice, table)
    _cloud(figure, choice, chance)
    best = table[table["front"]].sort_values(["value_q", "value"])
    front_line(figure, choice, best["value_q"], best["value"], name="front", showlegend=None)
    known = set(table["method"])
    for method in ["dense", *track.order(known - {"dense"})]:
        if method in known:
            _add_method(run, figure, choice, table[table["method"] == method], method)
    _flags(run, figure, choice, table)
    _ring(figure, choice, table, lookup.variant_of(run, choice)["variant"])
    is_log = needs_log([*table["value_q"], *table["high_q"].dropna()])
    figure.update_xaxes(type="log" if is_log else "linear", showgrid=True, nticks=6, tickangle=0)
    figure.update_yaxes(nticks=6)
    figure.update_layout(legend={"font": {"size": 11}})
    return figure


def _null_band(run: Run, figure: go.Figure, choice: Choice, table: pd.DataFrame) -> None:
    dense = table[(table["method"] == "dense") & table["null_high"].notna()]
    if dense.empty:
        return
    bands = bands_in(run, dense, lookup.reading(run, choice).harm.null_label)
    for start in bands:
        draw_level(figure, choice, start, dense.iloc[0].to_dict())
    crowded = lookup.reading(run, choice).quality.sign < 0  # good variants meet on that side
    side = {"x": 0, "xanchor": "left"} if crowded else {"x": 1, "xanchor": "right"}
    low = float(dense["null_low"].iat[0])
    name_bands(figure, choice, bands, **side, xref="paper", y=low, yanchor="bottom")


def _cloud(figure: go.Figure, choice: Choice, chance: Chance | None) -> None:
    """Cuts by chance, behind everything else."""
    if chance is None or chance.points.empty:
        return
    marker = {
        "symbol": "circle-open",
        "size": 7,
        "color": choice.theme.soft,
        "line": {"width": 1.5},
    }
    look = {
        "mode": "markers",
        "marker": marker,
        "name": chance.name,
        "showlegend": True,
        "opacity": 0.8,
    }
    silent(figure, chance.points["value_q"], chance.points["value"], **look)


def _add_method(
    run: Run, figure: go.Figure, choice: Choice, table: pd.DataFrame, method: str
) -> None:
    """The points of a method; those that do not compete for the front stay in the background."""
    front, back = table[table["competes"]], table[~table["competes"]]
    if method == "dense" or back.empty:
        _add_variants(run, figure, choice, table, method)
        return
    _add_variants(run, figure, choice, front, method, legendgroup=method, showlegend=True)
    _add_variants(
        run, figure, choice, back, method, legendgroup=method, showlegend=False, opacity=0.35
    )


def _add_variants(
    run: Run, figure: go.Figure, choice: Choice, table: pd.DataFrame, method: str, **more: Any
) -> None:
    """Points with both intervals, the larger the more is cut; `more`: anything else of the
    trace."""
    style = lookup.look_of(run, choice, method)
    soft, rim = faint(style.colour, 0.3), 2 if method == "dense" or "-open" in style.symbol else 0
    marker = {**dot(style, 0, rim), "opacity": 1, "size": 8 + 22 * table["realised"].clip(0, 0.5)}
    marker |= {"symbol": lookup.symbols(table, style.symbol)}
    bars = {
        "error_x": bars_of(table, soft, 1, "value_q", "low_q", "high_q"),
        "error_y": bars_of(table, soft, 1),
    }
    texts = [_hover(run, choice, row) for row in table.to_dict("records")]
    more |= {"customdata": table[["variant"]].to_numpy(), "name": lookup.method_label(run, method)}
    add_points(figure, table["value_q"], table["value"], texts, marker, **bars, **more)


def _flags(run: Run, figure: go.Figure, choice: Choice, table: pd.DataFrame) -> None:
    """A mark on every variant that the track says something is wrong with."""
    wrong = table[[bool(track_of(run).flag(row)) for row in table.to_dict("records")]]
    if wrong.empty:
        return
    marker = {"symbol": track_of(run).flag_symbol, "size": 9, "color": choice.theme.alarm}
    look = {
        "mode": "markers",
        "marker": marker,
        "name": f"degenerate {track_of(run).repeat}s",
        "showlegend": None,
    }
    silent(figure, wrong["value_q"], wrong["value"], **look)


def _ring(figure: go.Figure, choice: Choice, table: pd.DataFrame, variant: str) -> None:
    """A ring around the variant the reader chose."""
    mine = table[table["variant"] == variant]
    if mine.empty:
        return
    marker = {"symbol": "circle-open", "size": 24, "color": choice.theme.ink, "line": {"width": 2}}
    look = {"mode": "markers", "marker": marker, "name": "your choice", "showlegend": None}
    silent(figure, mine["value_q"], mine["value"], customdata=mine[["variant"]].to_numpy(), **look)


def _hover(run: Run, choice: Choice, row: dict[str, Any]) -> str:
    track, reading = track_of(run), lookup.reading(run, choice)
    return "<br>".join(
        filter(
            None,
            [
                f"<b>{lookup.variant_label(run, row)}</b>{track.mark(row)}",
                track.cut_of(run, row) if row["variant"] != "dense" else "",
                f"{reading.harm.name} {reading.harm.with_interval(row)}",
                f"{reading.quality.name} {reading.quality.with_interval(row, '_q')}",
                "on the front" if row["front"] else "",
                track.flag(row),
            ],
        )
    )


def _variants_said(run: Run, table: pd.DataFrame) -> list[str]:
    """What each variant is, for people: ids are for masks and files."""
    track = track_of(run)
    return [
        f"{lookup.variant_label(run, row)}{track.mark(row)}{track.draw(row)}"
        for row in table.to_dict("records")
    ]


def _shown(run: Run, choice: Choice, table: pd.DataFrame) -> pd.DataFrame:
    track, reading = track_of(run), lookup.reading(run, choice)
    heads = {**track.marks, "n": reading.harm.of_what or track.items}
    heads |= {"value": reading.harm.name, "value_q": reading.quality.name}
    named = table.assign(
        variant=_variants_said(run, table),
        method=[lookup.method_label(run, method) for method in table["method"]],
    )
    names = " ".join(dict.fromkeys(["variant", "method", *track.marks]))
    return readable(named, f"{names} value low high value_q low_q high_q front n", **heads)


def _answer(run: Run, choice: Choice, table: pd.DataFrame) -> tuple[str, str]:
    """Whether the chosen variant is on the front, or which variant beats it at both; then which are
    on it."""
    quality, harm = (
        one.sign for one in (lookup.reading(run, choice).quality, lookup.reading(run, choice).harm)
    )
    best = table[table["front"]].sort_values("value_q", ascending=quality > 0)
    names = [_named(run, row) for row in best.to_dict("records")]
    track, competing = track_of(run), table[table["competes"]]
    where = f" at {track.level.say(lookup.level_of(run, choice))}" if track.fronts_at_level else ""
    verb = "is" if len(best) == 1 else "are"
    text = (
        f"{len(best)} of {len(competing)} variants{where} {verb} on the front:"
        f" {phrasing.listing(names)}."
    )
    chosen = lookup.variant_of(run, choice)["variant"]
    mine = table[table["variant"] == chosen]
    if not mine.empty and not bool(mine["competes"].iat[0]):
        return text, ""
    if mine.empty:
        return f"The chosen variant was not measured on these {track.items}.", text
    if bool(mine["front"].iat[0]):
        among = f"Among the {len(competing)} variants{where}, none" if where else "No variant"
        return f"{among} beats {_named(run, mine.iloc[0].to_dict())} at both.", text
    x, y = quality * float(mine["value_q"].iat[0]), harm * float(mine["value"].iat[0])
    no_worse = (quality * table["value_q"] <= x) & (harm * table["value"] <= y)
    beats = table[no_worse & (table["variant"] != chosen) & table["front"]]
    by = phrasing.listing([_named(run, row) for row in beats.to_dict("records")], 3)
    start = (
        f"{phrasing.sentence(_named(run, mine.iloc[0].to_dict()))} is beaten at both by {by}, in"
        " measured values"
    )
    return f"{start}; {_parted(beats, mine.iloc[0], quality, harm)}.", text


def _parted(beats: pd.DataFrame, mine: pd.Series, quality: int, harm: int) -> str:
    """Of how many of those that beat the chosen one the intervals of both numbers are apart from
    its own."""
    both = np.ones(len(beats), dtype=bool)
    for sign, end in ((quality, "_q"), (harm, "")):
        ends = [
            np.sort(sign * beats[[f"low{end}", f"high{end}"]].to_numpy(dtype=float), axis=1),
            np.sort(sign * mine[[f"low{end}", f"high{end}"]].to_numpy(dtype=float)),
        ]
        both &= ends[0][:, 1] < ends[1][0]  # False where there is no interval
    if both.all():
        return "intervals of both numbers are apart"
    return (
        "their intervals overlap"
        if not both.any()
        else f"intervals are apart for {both.sum()} of {len(both)}"
    )


def _named(run: Run, row: dict[str, Any]) -> str:
    track = track_of(run)
    if row["method"] == "dense":
        return f"the {track.whole}"
    mark = track.mark(row).replace(" = ", " ")
    return f"{words.method_name(row['method'])} ({track.level.say(row[track.level.column])}{mark})"

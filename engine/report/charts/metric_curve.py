"""How one measure moves as more is cut, for every method of the run: the curve behind the
slider."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values, at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import claimed
from engine.report.charts.kinds import (
    add_points,
    add_series,
    around,
    chosen_last,
    entry,
    null_band,
    remark,
    silent,
)
from engine.report.charts.lookup import View
from engine.report.charts.panel import (
    Choice,
    Panel,
    apart,
    blank,
    needs_log,
    nothing,
    ratio_axis,
    scale,
)
from engine.report.schema import readable
from engine.report.tracks import Measure, track_of
from engine.store.runs import Run

# Null bands in charts, one filled, a second outlined; a single one has its words beside it, two
# have a legend.


WORDS, GROUP = "null", "group_null"
"""How columns of each band begin: labels exchanged one by one, and whole clusters of them."""


def bands_in(run: Run, table: pd.DataFrame, label: str = "") -> dict[str, str]:
    """The null bands that a table of results holds: how their columns begin, and what a chart calls
    them. label: of the first, where it is another than the track's."""
    track = track_of(run)
    known = {WORDS: label or track.null.label, GROUP: track.null.group_label}
    return {
        start: said
        for start, said in known.items()
        if said and (f"{start}_high" in table and bool(table[f"{start}_high"].notna().any()))
    }


def draw_along(
    figure: go.Figure,
    choice: Choice,
    start: str,
    x: list[float],
    low: list[float],
    high: list[float],
) -> None:
    """A band along x: x, low and high are [points] each."""
    if start == WORDS:
        null_band(figure, choice, x, low, high)
    else:
        silent(
            figure,
            x + x[::-1] + x[:1],
            high + low[::-1] + high[:1],
            mode="lines",
            line=_outline(choice),
        )


def draw_level(figure: go.Figure, choice: Choice, start: str, row: Values) -> None:
    """A band across the whole chart, from a row of results."""
    look = {"fillcolor": choice.theme.band, "line_width": 0}
    if start != WORDS:
        look = {"line": _outline(choice)}
    figure.add_hrect(y0=row[f"{start}_low"], y1=row[f"{start}_high"], layer="below", **look)


def name_bands(figure: go.Figure, choice: Choice, bands: Mapping[str, str], **where: Any) -> None:
    """One band: its words inside the chart, at `where`. Two: the legend."""
    if len(bands) == 1:
        remark(figure, choice, next(iter(bands.values())), **where)
        return
    square = {
        "mode": "markers",
        "marker": {"symbol": "square", "size": 13, "color": choice.theme.band},
    }
    for start, said in bands.items():
        entry(
            figure,
            said,
            **(square if start == WORDS else {"mode": "lines", "line": _outline(choice)}),
        )


def _outline(choice: Choice) -> Values:
    return {"width": 1.3, "dash": "dash", "color": choice.theme.soft}


MANY_LINES = 4
ONE_INTERVAL = " The chart shows the intervals of the chosen method; the table has all of them."


@dataclass(frozen=True)
class Curve:
    """What a curve is about. `y_title` above its axis; `absent` says what a run lacks that has no
    such curve."""

    key: str
    question: str
    measure: Measure
    y_title: str
    absent: str
    with_null: bool = False
    may_be_log: bool = True
    """Whether values far apart are drawn on a logarithmic axis; not where zero is a value like
    others."""
    said: str = ""
    """The measure as the object of a sentence, where its name alone will not do."""


def along(run: Run, choice: Choice, curve: Curve, note: str, lead: str = "") -> Panel:
    """A measure against how much is cut, every compared method; `lead` is to be kept in mind,
    `note` said below."""
    table, absent = rows_along(run, choice, curve.measure), lookup.not_built(run, choice.axis)
    if table.empty:
        return nothing(curve.key, curve.question, f"{curve.absent} {absent}".strip())
    view = View(run, choice)
    figure, (answer, more) = _figure(view, curve, table), _answer(view, curve, table)
    note += ONE_INTERVAL * _crowded(view, table)
    own, mind = view.track.variants, f"{lead} {absent}".strip()
    numbers = "value low high delta delta_low delta_high delta_p n" + NULLS * curve.with_null
    shown = readable(table, f"{own.columns} {numbers}", **own.titles)
    return Panel(curve.key, curve.question, answer, figure, shown, note, mind=mind, more=more)


def _crowded(view: View, table: pd.DataFrame) -> bool:
    """Whether the bars of all lines would hide the lines: only the chosen one's are drawn then."""
    lines = set(table["method"]) - {"dense"}
    return not view.track.methods.line_labels and len(lines) > MANY_LINES


def seeds_note(run: Run, choice: Choice, measure: Measure) -> str:
    """Methods of which several selections are drawn as one line."""
    several = pooled(run, rows_along(run, choice, measure)).query("selections > 1")
    if several.empty:
        return ""
    names = phrasing.listing(words.method_name(name) for name in several["method"].unique())
    many = int(several["selections"].max())
    return f"{phrasing.sentence(names)}: mean of {many} selections. Bars span all their intervals."


def rows_along(run: Run, choice: Choice, measure: Measure) -> pd.DataFrame:
    """Reported variants of this target axis (or of none) and the dense model, with their test
    result."""
    track = track_of(run)
    variants = lookup.of_axis(run, lookup.reported(run), choice.axis)
    shown = {"dense", *track.methods.compared(list(variants["method"].unique()), choice.method)}
    columns = list(dict.fromkeys(["variant", track.level.column, *track.variants.columns.split()]))
    columns += [name for name in ("predicted", "arm") if name in variants]
    table = variants.loc[variants["method"].isin(shown), columns]
    table = table.merge(lookup.results_of(run, measure, choice), on="variant")
    rows = table[(table["method"] == "dense") | lookup.is_change(table)]
    order = ["method", track.level.column, *table.columns.intersection(["seed"])]
    return rows.sort_values(order, ignore_index=True, kind="stable")


def pooled(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """One point per method and level: several selection seeds become their mean and the outermost
    interval ends."""
    level = track_of(run).level
    columns = {
        "mean": f"{level.realised} n_cut value null_low null_high delta"
        " group_null_low group_null_high",
        "first": "variant arm",
        "min": "low delta_low",
        "max": "high delta_high delta_p predicted",
        "sum": "degenerate",
    }
    how = {name: of for of, names in columns.items() for name in names.split() if name in table}
    grouped = table.groupby(["method", level.column])
    return grouped.agg(how).assign(selections=grouped.size()).reset_index()


def _figure(view: View, curve: Curve, table: pd.DataFrame) -> go.Figure:
    run, choice, track = view.run, view.choice, view.track
    level, drawn = track.level, pooled(run, table).dropna(subset=["value"])
    figure = blank(choice, 400, track.ways.axis(run) or level.axis, curve.y_title)
    dense = drawn[drawn["method"] == "dense"]
    order = chosen_last(track.methods.order(set(drawn["method"]) - {"dense"}), choice.method)
    if curve.with_null:
        _null_band(view, figure, drawn, dense)
    is_log = curve.may_be_log and needs_log(
        drawn["high"].fillna(drawn["value"]).tolist() + drawn["value"].tolist()
    )
    if not dense.empty:
        figure.add_hline(
            y=float(dense["value"].iat[0]),
            line={"color": choice.theme.ink, "width": 1, "dash": "dot"},
        )
    for method, shift in zip(order, around(len(order), 1), strict=True):
        has_bars = method == choice.method or not _crowded(view, table)
        _line(view, figure, curve.measure, drawn, method, shift, has_bars)
    _flags(view, figure, drawn)
    if track.methods.line_labels:
        _end_labels(view, figure, drawn, order, dense, is_log)
    if level.is_ratio:
        ratio_axis(figure, drawn[level.realised], drawn[level.column])
    else:
        figure.update_xaxes(tickformat=".0%", nticks=5, tickangle=0)
    figure.update_yaxes(**scale(is_log), nticks=6)
    several = curve.with_null and len(bands_in(run, drawn)) > 1
    figure.update_layout(showlegend=several or not track.methods.line_labels)
    if not track.methods.line_labels:  # room for the names above
        figure.update_layout(
            height=400 + 20 * math.ceil(len(order) / 2), legend={"font": {"size": 12}}
        )
    return figure


def _null_band(view: View, figure: go.Figure, points: pd.DataFrame, dense: pd.DataFrame) -> None:
    """The chosen method's null bands at each level; the dense model's where nothing is chosen."""
    level, choice = view.track.level, view.choice
    mine = pd.concat([dense, points[points["method"] == choice.method]])
    mine = mine.drop_duplicates(level.realised)
    bands = bands_in(view.run, mine)
    for start in bands:
        known = mine[mine[f"{start}_high"].notna()].sort_values(level.realised, kind="stable")
        x, low, high = (
            known[name].tolist() for name in (level.realised, f"{start}_low", f"{start}_high")
        )
        if len(known) == 1:
            x, low, high = [level.none, points[level.realised].max()], low * 2, high * 2
        draw_along(figure, choice, start, x, low, high)
    if bands:
        place = {
            "x": math.log10(x[0]) if level.is_ratio else x[0],
            "y": low[0],
            "xanchor": "left",
            "yanchor": "top",
        }
        name_bands(figure, choice, bands, **place, xshift=4)


def _line(
    view: View,
    figure: go.Figure,
    measure: Measure,
    points: pd.DataFrame,
    method: str,
    shift: float,
    has_bars: bool,
) -> None:
    """One method from the dense model on; the chosen one heavier."""
    run, choice, track = view.run, view.choice, view.track
    at = track.level.realised
    start = points[points["method"] == "dense"].assign(low=math.nan, high=math.nan)
    joined = pd.concat([start, points[points["method"] == method]]).sort_values(at, kind="stable")
    style = lookup.look_of(run, choice, method)
    texts = [_hover(run, measure, row) for row in joined.to_dict("records")]
    rows = joined.assign(hover=texts, symbol=lookup.symbols(joined, style.symbol))
    add_series(
        figure,
        rows,
        _aside(view, joined[at], shift, points),
        rows["value"],
        style,
        method == choice.method,
        "- value" if has_bars else "",
        name=words.method_name(method),
        customdata=joined["variant"],
        hoverlabel={"bordercolor": track.methods.style(method, choice.dark).colour},
        showlegend=not track.methods.line_labels,
    )


def _aside(view: View, places: pd.Series, shift: float, points: pd.DataFrame) -> list[float]:
    """Places on the x axis, moved a little so that the bars of several methods do not hide each
    other, and never near the next place."""
    level = view.track.level
    if level.is_ratio:
        return [place * 2 ** (0.03 * shift) if place > level.none else place for place in places]
    largest = points[level.realised].max()
    room = np.diff(np.unique(places)).min(initial=largest)
    step = min(0.0175 * max(0.1, largest), room / 2 / points["method"].nunique()) * shift
    return [place + (step if place > level.none else 0) for place in places]


def _flags(view: View, figure: go.Figure, points: pd.DataFrame) -> None:
    """A mark on every point that the track says something is wrong with."""
    track = view.track
    texts = points.apply(track.flags.of, axis=1) if len(points) else pd.Series(dtype=str)
    wrong = points[texts != ""]
    if wrong.empty:
        return
    marker = {"symbol": track.flags.symbol, "size": 13, "color": view.choice.theme.alarm}
    x, name = wrong[track.level.realised], f"degenerate {track.nouns.repeat}s"
    add_points(figure, x, wrong["value"], texts[wrong.index], marker, name=name)


def _hover(run: Run, measure: Measure, row: Values) -> str:
    if row["method"] == "dense":
        return f"<b>{track_of(run).nouns.whole}</b><br>{measure.number(row['value'])}"
    head = f"<b>{words.method_name(row['method'])}</b>, {track_of(run).variants.reached(run, row)}"
    head += ", predicted" if lookup.is_predicted(row) else ""
    return f"{head}<br>{measure.with_interval(row)}<br>change {measure.change(row)}"


def _end_labels(
    view: View,
    figure: go.Figure,
    points: pd.DataFrame,
    order: list[str],
    dense: pd.DataFrame,
    is_log: bool,
) -> None:
    """Method names at the right end of their lines, moved apart where they would overlap."""
    ends = [(name, points[points["method"] == name].iloc[-1]["value"]) for name in order]
    ends += [("dense", float(value)) for value in dense["value"]]
    heights = [math.log10(value) if is_log else value for _, value in ends]
    column = points[["low", "high", "value", "null_low"]].to_numpy(dtype=float)
    column = [
        math.log10(value) if is_log else value
        for value in column[(column > 0) & (column < math.inf)]
    ]
    room = 1.1 * (max(column) - min(column)) if column else 0.0
    where = {
        "x": 1,
        "xref": "paper",
        "xshift": 8,
        "xanchor": "left",
        "yanchor": "middle",
        "showarrow": False,
    }
    choice = view.choice
    for (name, _), place in zip(ends, apart(heights, (room or 1.0) * 17 / 330), strict=True):
        text = "dense" if name == "dense" else words.method_name(name)
        strong = name in ("dense", choice.method)  # colours of marks are too pale for words
        font = {"size": 12, "color": choice.theme.ink if strong else choice.theme.soft}
        text = f"<b>{text}</b>" if name == choice.method else text
        figure.add_annotation(y=place, text=text, font=font, **where)
    longest = max((len(words.method_name(name)) for name in order), default=5)
    figure.update_layout(margin={"r": 20 + int(6.7 * longest)})


NULLS = " null_low null_high null_p group_null_low group_null_high group_null_p"


def _answer(view: View, curve: Curve, table: pd.DataFrame) -> tuple[str, str]:
    """At the chosen level: what the chosen method does; then the others, from the interval of each
    change."""
    run, choice, level, measure = view.run, view.choice, view.track.level, curve.measure
    what = curve.said or measure.name
    points = pooled(run, table[table["method"] != "dense"])
    if points.empty:
        return f"No variant's {measure.name} was measured here.", ""
    at = choice.level if choice.level > level.none else points[level.column].max()
    here = points[at_level(points[level.column], at)]
    mine, parts, rest = here[here["method"] == choice.method], [], []
    verbs = {**phrasing.VERBS, "unknown": "has no interval for"}
    for row in mine.to_dict("records"):
        name = words.method_name(row["method"])
        aim = lookup.variant_of(run, replace(choice, level=at)).get("target_axis")
        if aim and not measure.per_axis and len(run.request["axes"]) > 1:
            name += f" for {words.axis_name(aim)}"
        if not math.isfinite(row["delta"]):  # a level that is about the change already
            parts.append(f"At {level.say(at)}, {what} of {name} is {measure.with_interval(row)}")
            continue
        change = measure.change(row).removeprefix("no clear change, ")
        if row["selections"] > 1:
            change = change.replace("95 % interval", "all 95 % intervals within")
            change = f"{change}; mean of {row['selections']} selections"
        parts.append(
            f"At {lookup.level_said(run, row)}, {name} {verbs[claimed(view, measure, row)]} {what}"
            f" ({change})"
        )
    others = here[here["method"] != choice.method].to_dict("records")
    ways = (("fell", "lower"), ("rose", "raise"))[:: -measure.sign]
    for kind, verb in (*ways, ("unclear", "do not clearly change")):
        names = [
            words.method_name(row["method"])
            for row in others
            if claimed(view, measure, row) == kind
        ]
        if names:
            rest.append(
                f"{phrasing.listing(names)} {verb if len(names) > 1 else verbs[kind]} {what}"
            )
    if not parts and not rest:
        return f"Nothing was measured at {level.say(at)}.", ""
    return phrasing.sentences(["; ".join(parts or rest)]), phrasing.sentences(rest if parts else ())


# How a classifier's quality and the gap between its groups move as more is cut, for every arm of
# the run.


def gap_along(run: Run, choice: Choice) -> Panel:
    """The gap between subgroups along the slider, every arm, with the null band of the chosen
    one."""
    measure, track = lookup.reading(run, choice).harm, track_of(run)
    curve = Curve(
        f"{measure.metric}_along_{track.level.column}",
        f"As more {track.nouns.many} are cut, does the {measure.name} of"
        f" {words.axis_name(choice.measured)} grow?",
        measure,
        measure.title,
        f"This run has no {measure.name} for this choice.",
        with_null=True,
        may_be_log=False,
        said=f"the {measure.name}",
    )
    row = lookup.harm(run, "dense", choice)
    return along(
        run, choice, curve, lookup.caveat(run, row, more=f"{track.null.made} {track.flags.said}")
    )


def quality_along(run: Run, choice: Choice) -> Panel:
    """Quality on everything together along the slider."""
    measure, track = lookup.reading(run, choice).quality, track_of(run)
    curve = Curve(
        f"{measure.metric}_along_{track.level.column}",
        f"As more {track.nouns.many} are cut, how much worse does the model classify all"
        f" {track.nouns.items} together?",
        measure,
        measure.title,
        f"This run has no {measure.name}.",
        may_be_log=False,
    )
    row = lookup.measured(run, "dense", measure, choice)
    return along(run, choice, curve, lookup.caveat(run, row, more=track.flags.said))

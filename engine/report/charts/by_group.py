"""One measure per subgroup, before and after the cut: the panel, whatever is measured."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.text import visible
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import ends_said
from engine.report.charts.kinds import add_series, dots, row_names, silent
from engine.report.charts.lookup import View, axis_note
from engine.report.charts.panel import FONT, Choice, Panel, blank, nothing, plain, wrapped
from engine.report.schema import WIDE, readable
from engine.report.tracks import Measure, nothing_said, track_of
from engine.store.runs import Run

LONGEST = 24
"""Subgroups drawn at most; the table always has all of them."""
COLUMNS = (
    "group n value_dense low_dense high_dense value low high delta delta_low delta_high verdict"
)

ALONE = "Intervals are of one group each; a clear change allows for all judged groups."
Moved = Callable[[str, bool], str]
"""(subgroups, are there several) -> the start of a sentence about subgroups that moved one way."""


@dataclass(frozen=True)
class ByGroup:
    """What is measured and how it is said. `fell` and `rose` begin parts of a sentence.

    Where more is better, the smallest is worst off and on top. The axis then holds the subgroups
    with a verdict, and wide intervals of tiny ones run out of the chart.
    """

    measure: Measure
    x_title: str
    key: str = ""
    question: str = ""
    absent: str = ""
    fell: Moved = nothing_said
    rose: Moved = nothing_said
    items: str = ""
    """What n counts, where that is something else than the track's items."""


def by_group(run: Run, choice: Choice, about: ByGroup, note: str) -> Panel:
    """A dumbbell per subgroup, the worst-off on top."""
    table = pairs(run, choice, about.measure)
    if table.empty:
        return nothing(about.key, about.question, about.absent)
    figure = dumbbell(run, choice, about, table)
    answer, more = _answer(View(run, choice), about, table)
    if (hidden := len(table) - LONGEST) > 0:
        end = "lowest" if about.measure.sign < 0 else "highest"
        note += f" The chart shows the {LONGEST} {end}; {hidden} more are in the table."
    if table["delta"].notna().sum() > 1:
        note += f" {ALONE}"
    return Panel(about.key, about.question, answer, figure, shown(run, table), note, more=more)


def pairs(run: Run, choice: Choice, measure: Measure) -> pd.DataFrame:
    """One row per subgroup: dense value and interval, variant value, interval and change, n,
    verdict; worst first."""
    dense, after = (
        lookup.groups_of(run, variant, measure.metric, choice.measured)
        for variant in ("dense", lookup.variant_of(run, choice)["variant"])
    )
    both, change = ["group", "value", "low", "high"], ["delta", "delta_low", "delta_high"]
    dense, after = dense[[*both, "n", "verdict"]], after[[*both, *change]]
    table = dense.merge(after, on="group", suffixes=("_dense", ""))
    table = table.assign(verdict=table["verdict"].str.replace("images", track_of(run).nouns.items))
    return table.sort_values(
        "value_dense", ascending=measure.sign < 0, ignore_index=True, kind="stable"
    )


def _answer(view: View, about: ByGroup, table: pd.DataFrame) -> tuple[str, str]:
    """Which subgroups fell, rose, or neither, in a sentence; then by how much at most, and who gets
    no verdict."""
    enough, known = table[table["verdict"] == ""], view.track.evidence.too_few
    few = [
        f"{phrasing.listing(rows['group'].map(words.quoted))}:"
        f" {known.get(str(verdict), f'{verdict}: no verdict')}."
        for verdict, rows in table[table["verdict"] != ""].groupby("verdict")
    ]
    if enough.empty:
        return f"No subgroup has enough {view.reading.group.few} for a verdict.", " ".join(few)
    if view.is_dense:
        return f"Uncut, {ends_said(view, about.measure, enough)}.", " ".join(few)
    return _moves(about, enough), " ".join([*_largest(about, enough), *few])


def _kinds(table: pd.DataFrame) -> dict[str, str]:
    rows = table.to_dict("records")
    return {row["group"]: phrasing.direction(row, len(rows)) for row in rows}


def _moves(about: ByGroup, table: pd.DataFrame) -> str:
    """Which subgroups fell, rose, or neither; those that got worse first."""
    parts, kinds = [], _kinds(table)
    ways = (("fell", about.fell), ("rose", about.rose))
    for kind, start in ways[:: -about.measure.sign]:
        names = [words.quoted(group) for group, found in kinds.items() if found == kind]
        if names:
            parts.append(start(phrasing.listing(names), len(names) > 1))
    still = [words.quoted(group) for group, kind in kinds.items() if kind in ("unclear", "unknown")]
    if still:
        parts.append(f"no clear change for {phrasing.listing(still)}")
    return phrasing.sentences(["; ".join(parts)])


def _largest(about: ByGroup, table: pd.DataFrame) -> list[str]:
    """The largest clear change each way with its interval, for the worse first; then what could
    have been found where none is clear."""
    found: list[str] = []
    kinds = table["group"].map(_kinds(table))
    for kind, pick in (("fell", "idxmin"), ("rose", "idxmax"))[:: -about.measure.sign]:
        moved = table[kinds == kind]
        if not moved.empty:
            most = table.loc[getattr(moved["delta"], pick)()].to_dict()
            way = "fall" if kind == "fell" else "rise"
            found.append(
                f"Largest {way}: {words.quoted(most['group'])}, {about.measure.change(most)}."
            )
    still = table[kinds == "unclear"].to_dict("records")
    if could := phrasing.could(still, len(table), about.measure.most, about.measure.number):
        found.append(f"Where none is clear, {could}.")
    return found


def dumbbell(run: Run, choice: Choice, about: ByGroup, table: pd.DataFrame) -> go.Figure:
    """Two points with intervals per subgroup, the uncut model above the cut one, worst-off subgroup
    on top."""
    view = View(run, choice)
    drawn = table.head(LONGEST).iloc[::-1].reset_index(drop=True)
    is_focused, is_cut = about.measure.sign < 0, not view.is_dense
    # Room where names take several lines, and air where subgroups are few and have `room`
    # pixels between them.
    lines = max(wrapped(words.group_name(group)).count("<br>") for group in drawn["group"])
    row = max(46 + 16 * lines, min(90, (270 if is_focused else 0) // len(drawn)))
    figure = blank(choice, 96 + row * len(drawn), about.x_title)
    if is_cut:  # a thin line from each dense point to its pruned point
        ends = zip(drawn["value_dense"], drawn["value"], drawn.index, strict=True)
        links = [((before, y + 0.14), (after, y - 0.14), (None, None)) for before, after, y in ends]
        x, y = ([point[axis] for link in links for point in link] for axis in (0, 1))
        silent(figure, x, y, mode="lines", line={"color": choice.theme.soft, "width": 1})
    dense = (view.track.nouns.whole, "dense", "circle-open")
    _add_side(view, figure, about, drawn, "_dense", dense, 0.14 if is_cut else 0)
    if is_cut:
        symbol = "diamond-open" if view.is_predicted else "circle"
        mine = (lookup.variant_label(run, view.variant), view.variant["method"], symbol)
        _add_side(view, figure, about, drawn, "", mine, -0.14)
    row_names(figure, [_label(choice, row) for row in drawn.to_dict("records")], upwards=True)
    if is_cut:
        _write_changes(choice, figure, about.measure, drawn)
    figure.update_xaxes(showgrid=True, nticks=6)
    enough = drawn[drawn["verdict"] == ""]
    if is_focused and len(enough):
        ends = enough[["value", "low", "high", "value_dense", "low_dense", "high_dense"]]
        low, high = float(ends.min().min()), float(ends.max().max())
        room = 0.05 * (high - low) or 0.01
        figure.update_xaxes(range=[low - room, high + room])
    return figure


def _write_changes(
    choice: Choice, figure: go.Figure, measure: Measure, drawn: pd.DataFrame
) -> None:
    """The paired change of each subgroup and its interval, right of its row."""
    where = {"x": 1, "xref": "paper", "xanchor": "left", "xshift": 8, "align": "left"}
    look = {"showarrow": False, "font": {"size": 11, "color": choice.theme.soft}}
    for y, row in enumerate(drawn.to_dict("records")):
        if row["verdict"] == "" and math.isfinite(row["delta"]):
            span = measure.span(row["delta_low"], row["delta_high"])
            text = f"{measure.signed(row['delta'])}<br>({span})"
            figure.add_annotation(y=y, text=text, **where, **look)
    figure.update_layout(margin={"r": 110})


def _add_side(
    view: View,
    figure: go.Figure,
    about: ByGroup,
    table: pd.DataFrame,
    suffix: str,
    named: tuple[str, str, str],
    shift: float,
) -> None:
    """The points of one model; `suffix`: of its columns, `named`: its name, its method and its
    symbol."""
    name, method, symbol = named
    style = replace(view.track.methods.style(method, view.choice.dark), symbol=symbol)
    ends = {column: table[f"{column}{suffix}"] for column in ("value", "low", "high")}
    texts = [_hover(view, about, row, suffix, name) for row in table.to_dict("records")]
    faded = table["verdict"].map(lambda verdict: 0.4 if verdict else 1.0)
    rows = table.assign(**ends, hover=texts, opacity=faded, size=11)
    y = table.index + shift
    add_series(figure, rows, rows["value"], y, style, None, "value", name=name, mode="markers")


def _label(choice: Choice, row: Values) -> str:
    """A subgroup and its n; what keeps it from a verdict."""
    said = "too few" if row["verdict"].startswith("too few") else plain(row["verdict"])
    few = f"; {said}" * bool(said)
    return (
        f"{wrapped(words.group_name(row['group']))}<br><span"
        f" style='font-size:11px;color:{choice.theme.soft}'>n = {row['n']:.0f}{few}</span>"
    )


def _hover(view: View, about: ByGroup, row: Values, suffix: str, name: str) -> str:
    measure, n = about.measure, f"{row['n']:.0f} {about.items or view.track.nouns.items}"
    said = wrapped(f"{name}: {measure.with_interval(row, suffix)}", WIDE)
    text = f"<b>{plain(words.group_name(row['group']))}</b>, {n}<br>{said}"
    if not suffix and math.isfinite(row["delta"]):
        text += f"<br>{wrapped(f'change {measure.change(row)}', WIDE)}"
    return text + (f"<br>{row['verdict']}: no verdict" if row["verdict"] else "")


def shown(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """The table behind the chart."""
    return readable(table, COLUMNS, n=track_of(run).nouns.items, value="after", verdict="note")


# If the gap shrank: did the worst-off subgroup gain, or did the best-off lose? For any track.


QUESTION = "If the gap shrank: did the worst-off subgroup gain, or did the best-off lose?"
_LEVELLED = "Levelling down: the gap shrank only because the best-off subgroup got worse"
LEVELLING_COLUMNS = "what before value delta delta_low delta_high n"


def levelling_down(run: Run, choice: Choice) -> Panel:
    """Change of the dense model's worst and best subgroup, and of the gap between worst and
    best."""
    view = View(run, choice)
    if view.is_dense:
        return nothing("levelling_down", QUESTION, "Nothing is cut here, so nothing changed.")
    table = pd.DataFrame(_extremes(view))
    if table.empty:
        return nothing(
            "levelling_down", QUESTION, "This run has no worst and best subgroup for this choice."
        )
    table = table.assign(before=table["value"] - table["delta"])
    more = (
        f"The worst-off and best-off groups are those of the {view.track.nouns.whole}, so part of "
        "a change towards the middle is chance."
    )
    # n of the ends may count something else
    note = lookup.caveat(run, view.row(view.reading.gap), more=more)
    verdict, facts = _told(view, {row["metric"]: row for row in table.to_dict("records")})
    shown, figure = readable(table, LEVELLING_COLUMNS, value="after"), _changes(view, table)
    more = phrasing.sentences(facts)
    return Panel("levelling_down", QUESTION, f"{verdict}.", figure, shown, note, more=more)


def _told(view: View, rows: Mapping[str, Values]) -> tuple[str, list[str]]:
    """The verdict, and what both ends did. rows: by metric."""
    reading = view.reading
    if not {reading.worst.metric, reading.best.metric, reading.gap.metric} <= set(rows):
        return "Worst-off and best-off subgroup were not both measured", []
    worst, best, gap = (rows[one.metric] for one in (reading.worst, reading.best, reading.gap))
    way, kind = view.way(reading.worst, worst), phrasing.direction(gap)
    gains, hurt = way == reading.worst.better, way == reading.worst.worse
    loses = view.way(reading.best, best) == reading.best.worse
    facts = [
        f"the worst-off subgroup ({words.quoted(worst['group'])}): {reading.worst.change(worst)}",
        f"the best-off ({words.quoted(best['group'])}): {reading.best.change(best)}",
    ]
    if hurt and loses:
        return "Both ends got worse", facts
    if kind == "fell" and loses:
        return "Partly levelling down: the gap shrank from both ends" if gains else _LEVELLED, facts
    if kind == "fell" and gains:
        gained = "because the worst-off subgroup gained; the best-off did not clearly lose"
        return f"The gap shrank {gained}", facts
    if kind == "fell":
        return "The gap shrank, but neither end clearly changed", facts
    if kind == "rose":
        return "The gap grew", facts
    return "The worst-off subgroup got worse" if hurt else "The gap did not clearly change", facts


def _extremes(view: View) -> Iterator[Values]:
    """Result rows for worst-off, best-off and gap, with `what` and the name of the `group`."""
    for measure in (view.reading.worst, view.reading.best, view.reading.gap):
        row = view.row(measure)
        if row is not None and math.isfinite(row["value"]):
            group = end_named(view, measure, row)
            what = measure.word.name + (f": {group}" if group else " between worst and best")
            yield {**row, "group": group, "what": what, "measure": measure}


def end_named(view: View, measure: Measure, row: Values) -> str:
    """Which subgroup the dense model's worst or best is: the one the row names, or whose value is
    the reported one.

    "" for a measure that is of neither end.
    """
    if measure.metric not in (view.reading.worst.metric, view.reading.best.metric):
        return ""
    if measure.names_group and row.get("group"):
        return words.group_name(str(row["group"]))
    dense, here = view.row(measure, "dense"), view.groups("dense")
    if dense is None or here.empty:
        return ""
    nearest = (here["value"] - dense["value"]).abs()
    return words.group_name(here.loc[nearest.idxmin(), "group"]) if nearest.min() < 1e-6 else ""


def _changes(view: View, table: pd.DataFrame) -> go.Figure:
    records, method, choice = table.to_dict("records"), view.variant["method"], view.choice
    said = [
        f"<b>{plain(row['what'])}</b><br>change {row['measure'].change(row)}" for row in records
    ]
    figure = dots(
        choice,
        table.assign(method=method, hover=said),
        "delta",
        {what: wrapped(what, 18) for what in table["what"]},
        {method: view.track.methods.style(method, choice.dark)},
        f"change of {plain(view.reading.group.name)}",
        row="what",
    )
    for place, row in enumerate(records):
        text, where = row["measure"].signed(row["delta"]), {"x": row["delta"], "y": place}
        figure.add_annotation(**where, text=text, showarrow=False, yshift=16)
    return figure


# Who pays when a classifier is cut: AUC and accuracy of every subgroup, before and after.


_QUESTIONS = {
    "auc": (
        "Who pays? How well are the classes told apart in each subgroup, before and after the cut?"
    ),
    "accuracy": "How often is the model right about each subgroup?",
}


def paid_by_group(run: Run, choice: Choice) -> Panel:
    """The measure the reader chose, per subgroup."""
    return _panel(run, choice, lookup.reading(run, choice).group)


def accuracy_by_group(run: Run, choice: Choice) -> Panel:
    """Accuracy per subgroup: it needs no two classes, but a threshold."""
    return _panel(run, choice, Measure("accuracy", few=track_of(run).nouns.items))


def _panel(run: Run, choice: Choice, measure: Measure) -> Panel:
    what = measure.name
    about = ByGroup(
        key=f"{measure.metric}_by_group",
        question=_QUESTIONS[measure.metric],
        measure=measure,
        x_title=measure.title,
        absent=f"This run has no {what} per subgroup for this choice.",
        fell=lambda names, several: f"{names} {'lose' if several else 'loses'} {what}",
        rose=lambda names, several: f"{names} {'gain' if several else 'gains'} {what}",
    )
    more = f"n = test {track_of(run).nouns.items}. {axis_note(run, choice)}".strip()
    return by_group(run, choice, about, lookup.caveat(run, None, more=more))


# Who pays, small, as SVG text: a row per subgroup, before and after the cut; for cards, where a
# chart is too much.


WIDTH, ROW, NAMES = 280, 24, 104
"""Pixels: the picture, a subgroup's row, the room of the names at its left."""
MOST = 5
"""Rows; of more subgroups the worst-off and the best-off are drawn."""


def thumbnail(run: Run, choice: Choice) -> str:
    """SVG of at most MOST rows, the worst-off on top; "" where no subgroup can be judged."""
    view = View(run, choice)
    measure = view.reading.group
    table = pairs(run, choice, measure)
    table = table[(table["verdict"] == "") & table["value_dense"].notna()]
    if table.empty:
        return ""
    if len(table) > MOST:
        table = pd.concat([table.head(MOST - 2), table.tail(2)])
    values = table[["value_dense", "value"][: 1 + (not view.is_dense)]]
    at, height = _scale(values), ROW * len(table) + 4
    rows = [_row(row, place, at, view) for place, row in enumerate(table.to_dict("records"))]
    rows += _ends(measure, values, at, height, choice)
    height += 18
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
        f' height="{height}" font-family="{html.escape(FONT)}" font-size="13">{"".join(rows)}</svg>'
    )


def _scale(values: pd.DataFrame) -> Callable[[float], float]:
    """From a value to its place along the picture."""
    low, high = float(values.min().min()), float(values.max().max())
    room, left = WIDTH - NAMES - 24, NAMES + 12
    return lambda value: left + room * ((value - low) / (high - low) if high > low else 0.5)


def _ends(
    measure: Measure, values: pd.DataFrame, at: Callable[[float], float], y: float, choice: Choice
) -> list[str]:
    """The smallest and the largest value below their places, and what is measured between them."""
    low, high = float(values.min().min()), float(values.max().max())
    said = [(at(low), "start", measure.number(low)), (at(high), "end", measure.number(high))]
    said += [((at(low) + at(high)) / 2, "middle", measure.name)] if high > low else []
    look = f'font-size="11.5" fill="{choice.theme.soft}"'
    return [
        f'<text x="{x:.1f}" y="{y + 11}" text-anchor="{anchor}" {look}>{html.escape(text)}</text>'
        for x, anchor, text in said
    ]


def _row(row: Values, place: int, at: Callable[[float], float], view: View) -> str:
    y, choice = ROW * place + ROW / 2 + 2, view.choice
    look, name = choice.theme, visible(words.group_name(str(row["group"])))
    name = html.escape(name if len(name) <= 13 else f"{name[:12]}…")
    before, after = at(float(row["value_dense"])), float(row["value"])
    line = f'<line x1="{NAMES}" x2="{WIDTH}" y1="{y}" y2="{y}" stroke="{look.grid}"/>'
    text = f'<text x="{NAMES - 8}" y="{y + 4.5}" text-anchor="end" fill="{look.ink}">{name}</text>'
    marks = (
        f'<circle cx="{before:.1f}" cy="{y}" r="4.5" fill="{look.paper}" stroke="{look.ink}"'
        ' stroke-width="2"/>'
    )
    if not view.is_dense and math.isfinite(after):
        x, colour = at(after), view.track.methods.style(choice.method, choice.dark).colour
        link = (
            f'<line x1="{before:.1f}" x2="{x:.1f}" y1="{y}" y2="{y}" stroke="{colour}"'
            ' stroke-width="3"/>'
        )
        marks = f'{link}{marks}<circle cx="{x:.1f}" cy="{y}" r="5.5" fill="{colour}"/>'
    return line + text + marks

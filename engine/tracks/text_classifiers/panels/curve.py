"""Is it still a ticket? The task's metric against the share of heads cut, against the full model
(Figs. 6.6, 6.7)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.columns import GROUP, METHOD, Column, readable, titled
from engine.report.charts.marks import DASHES, add_points, beside, chosen_last, dot, entry, heading
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain
from engine.report.contract import Measure
from engine.report.palette import Style, quiet, series_styles
from engine.store.runs import Run
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.headline import spread
from engine.tracks.text_classifiers.panels.lookup import (
    LOST,
    MATCHING,
    TICKET,
    UNJUDGED,
    WON,
    Reach,
    arm_of,
    but_said,
    few_seeds,
    first_and_last,
    groups_of_axis,
    measure_of,
    reach_of,
    ticket_levels,
)
from engine.tracks.text_classifiers.words import arm_style

HEIGHT = 360
BESIDE = 0.012
"""Shares by which points of several lines are moved apart, so that bars do not hide each other."""
LONGEST = 5
"""Groups drawn at most."""
ALL_ARMS, OTHER_ARMS = "of all arms", "of the others"
ABSENT = "This run has no tickets: its full model was not measured over seeds."
MARKS = (
    "Band and bars: mean \u00b1 standard deviation over seeds, as the definition asks; filled"
    " stars: winning tickets, open stars: matching, but not trained from the pre-trained weights."
)
FIXED = "The full model is one fixed model, so it has no deviation."
EASY = "A model whose seeds differ widely meets it easily."
COLUMNS = (
    METHOD,
    GROUP,
    *titled(sparsity="share asked", realised="share cut"),
    Column("metric", "metric", words.metric_name),
    *titled(mean="mean", std="standard deviation", full_mean="full model's mean"),
    *titled(full_std="full model's standard deviation", n_seeds="seeds", n="texts", state="ticket"),
)


def tickets_curve(run: Run, choice: Choice, group: str = "") -> Panel:
    """Every procedure along the share of heads cut, one column per score; of all texts, or of one
    group."""
    axis = choice.measured if group else ""
    measure, whom = measure_of(run, group), f" for {words.quoted(group)}" if group else ""
    question = f"Up to which share of heads does the cut model keep up{whom}?"
    table = ticket_levels(run, axis, group)
    if table.empty:
        return nothing("tickets_curve", question, ABSENT)
    there = set(table["method"])  # sets by hand have no levels
    scores = list(
        dict.fromkeys(arm_of(method)[1] for method in lookup.methods(run) if method in there)
    )
    room = _room(table)
    parts = tuple(_column(run, choice, table, score, measure, room) for score in scores)
    answer, rest = _answer(run, choice, table, group)
    return Panel(
        "tickets_curve",
        question,
        answer,
        None,
        _readable(table),
        _note(run, table),
        parts,
        more=rest,
    )


def tickets_by_group(run: Run, choice: Choice) -> Panel:
    """The chosen arm group by group: accuracy minus the full model's."""
    key, question = (
        "tickets_by_group",
        f"For which groups of {words.axis_name(choice.measured)} does the cut model keep up?",
    )
    parts = {
        group: ticket_levels(run, choice.measured, group)
        for group in groups_of_axis(run, choice.measured)
    }
    parts = {
        group: part[part["method"] == choice.method]
        for group, part in parts.items()
        if not part.empty
    }
    parts = {group: part for group, part in parts.items() if not part.empty}
    if not parts:
        return nothing(
            key, question, "No subgroup of this axis has levels of its own for this choice."
        )
    table = pd.concat(parts.values(), ignore_index=True)
    (answer, mind), figure = _groups_said(run, choice, parts), _group_figure(run, choice, parts)
    rest = _here(run, choice, parts)
    return Panel(
        key, question, answer, figure, _readable(table), _note(run, table), mind=mind, more=rest
    )


def _room(table: pd.DataFrame) -> tuple[float, float]:
    """What every column's y axis spans."""
    std, full = table["std"].fillna(0), table["full_std"].fillna(0)
    low = min((table["mean"] - std).min(), (table["full_mean"] - full).min())
    high = max((table["mean"] + std).max(), (table["full_mean"] + full).max())
    room = 0.07 * (high - low) or 0.01
    return float(low - room), float(high + room)


def _column(
    run: Run,
    choice: Choice,
    table: pd.DataFrame,
    score: str,
    measure: Measure,
    room: tuple[float, float],
) -> go.Figure:
    """One score: a line per procedure; the full model's mean as a line, its deviation as a band."""
    mine = table[table["method"].map(lambda method: arm_of(method)[1]) == score]
    names = [method for method in lookup.methods(run) if method in set(mine["method"])]
    figure = blank(choice, HEIGHT + 20 * math.ceil((len(names) + 2) / 2), y=measure.title)
    mean, std = (float(mine[name].fillna(0.0).iat[0]) for name in ("full_mean", "full_std"))
    figure.add_hrect(
        y0=mean - std, y1=mean + std, fillcolor=choice.theme.band, line_width=0, layer="below"
    )
    figure.add_hline(y=mean, line={"color": choice.theme.ink, "width": 1, "dash": "dot"})
    for method, shift in zip(
        chosen_last(names, choice.method), beside(len(names), BESIDE), strict=True
    ):
        _line(run, figure, choice, mine[mine["method"] == method], shift, measure)
    for method in names:
        style = _look(choice, method)
        line = {"color": style.colour, "dash": _dash(method), "width": 2}
        name = own.procedure_name(arm_of(method)[0])
        entry(figure, name, mode="lines+markers", line=line, marker=dot(style, 8, 1.6))
    entry(
        figure,
        "full model",
        mode="lines",
        line={"color": choice.theme.ink, "dash": "dot", "width": 1},
    )
    figure.update_xaxes(
        title_text="share of heads cut", tickformat=".0%", nticks=5, tickangle=0, rangemode="tozero"
    )
    figure.update_yaxes(range=list(room), nticks=7)
    heading(figure, plain(own.importance_name(score)))
    figure.update_layout(legend={"y": 1.1, "font": {"size": 12}}, margin={"t": 30})
    return figure


def _look(choice: Choice, method: str) -> Style:
    """The chosen procedure in its colour, in every score's column; the others grey."""
    style, mine = arm_style(method, choice.dark), arm_of(method)[0]
    return (
        style
        if choice.method in ("", "dense") or mine == arm_of(choice.method)[0]
        else quiet(style, choice.dark)
    )


def _line(
    run: Run, figure: go.Figure, choice: Choice, table: pd.DataFrame, shift: float, measure: Measure
) -> None:
    """One arm from the full model on, tickets as stars."""
    method = table["method"].iat[0]
    style, chosen = _look(choice, method), method == choice.method
    rows = table.sort_values("realised").to_dict("records")
    y = [rows[0]["full_mean"], *(row["mean"] for row in rows)]
    texts = ["the full model", *(_hover(row, measure) for row in rows)]
    line = {"color": style.colour, "width": 3 if chosen else 1.6, "dash": _dash(method)}
    look = {"line": line, "name": words.method_name(method), "opacity": 1 if chosen else 0.85}
    sizes, thickness = ((16, 9), 2) if chosen else ((12, 7), 1.2)
    _add_tickets(figure, rows, shift, y, texts, style, "circle-open", sizes, thickness, **look)


def _add_tickets(
    figure: go.Figure,
    rows: Sequence[dict[str, Any]],
    shift: float,
    y: list[float],
    texts: list[str],
    style: Style,
    first: str,
    sizes: tuple[int, int],
    thickness: float,
    **more: Any,
) -> None:
    """A line from the full model on, whose symbol is `first`; a point per row, tickets as stars.
    `sizes`: of a star, of another point; `y` and `texts`: [1 + rows]."""
    error = {
        "type": "data",
        "array": [None, *(row["std"] for row in rows)],
        "color": style.colour,
        "width": 0,
    }
    symbols = [{WON: "star", MATCHING: "star-open"}.get(row["state"], style.symbol) for row in rows]
    marker = {
        "symbol": [first, *symbols],
        "size": [7, *(sizes[row["state"] not in TICKET] for row in rows)],
        "color": style.colour,
        "line": {"width": 1.6, "color": style.colour},
    }
    look = {
        "mode": "lines+markers",
        "error_y": {**error, "thickness": thickness},
        "showlegend": False,
        **more,
    }
    add_points(figure, [0.0, *(row["realised"] + shift for row in rows)], y, texts, marker, **look)


def _dash(method: str) -> str:
    """The dash of the procedure: each score has a column of its own here."""
    order, procedure = list(own.PROCEDURES), arm_of(method)[0]
    return DASHES[order.index(procedure) % len(DASHES) if procedure in order else -1]


def _hover(row: dict[str, Any], measure: Measure) -> str:
    kind = {WON: "winning ticket", LOST: "no ticket", UNJUDGED: "too few seeds to judge"}
    return "<br>".join(
        filter(
            None,
            [
                (
                    f"<b>{words.method_name(row['method'])}</b>,"
                    f" {phrasing.percent(row['sparsity'])} asked"
                ),
                (
                    f"{measure.name} {spread(row['mean'], row['std'], measure)} over"
                    f" {row['n_seeds']:.0f} seeds"
                ),
                f"full model {spread(row['full_mean'], row['full_std'], measure)}",
                kind.get(row["state"], "matching, not a winning ticket"),
                "by the spread of its seeds only" if row["by_spread"] else "",
                "a seed predicts one class only" if row.get("degenerate", 0) > 0 else "",
            ],
        )
    )


def _answer(run: Run, choice: Choice, table: pd.DataFrame, group: str) -> tuple[str, str]:
    """How far the chosen arm gets; then the full model, and the arm that gets furthest."""
    measure = measure_of(run, group)
    row = table.iloc[0]
    start = (
        f"The full model's {measure.name} is {spread(row['full_mean'], row['full_std'], measure)}."
    )
    if few := few_seeds(run):
        return few, start
    parts = [start]
    known = set(table["method"])
    others = [
        method for method in lookup.methods(run) if method != choice.method and method in known
    ]
    if others:
        parts.append(
            furthest_said({method: _reach(table, method) for method in others}, OTHER_ARMS)
        )
    return f"{phrasing.sentence(_reach_said(table, choice.method))}.", " ".join(
        [*parts, *_easy_said(table)]
    )


def furthest_said(reach: Mapping[str, Reach], whom: str) -> str:
    """Which arms get furthest, by kind of ticket, each with what must be said about it."""
    end = max(one.share for one in reach.values())
    if not end:
        unknown = all(one.state == UNJUDGED for one in reach.values())
        other = "any arm" if whom == ALL_ARMS else "any other arm"
        if unknown:
            return f"Whether {other} is a ticket is left open."
        return f"{other.replace('any', 'No')} is a ticket at any level."
    best = [method for method, one in reach.items() if one.share == end]
    kinds = {state: [method for method in best if reach[method].state == state] for state in TICKET}
    parts = {}
    for state, arms in kinds.items():
        named = [
            words.method_name(name) + (f" ({reach[name].but})" if reach[name].but else "")
            for name in arms
        ]
        if named:
            parts[_kind_said(state, len(named))] = phrasing.listing(named)
    far = f"up to {phrasing.percent(end)} of heads cut"
    if len(parts) == 1:
        kind, names = next(iter(parts.items()))
        return (
            f"{phrasing.sentence(whom)} {names} {'gets' if len(best) == 1 else 'get'} furthest:"
            f" {kind} {far}."
        )
    each = "; ".join(f"{names}, {kind}" for kind, names in parts.items())
    return f"{phrasing.sentence(whom)} these get furthest, {far}: {each}."


def _kind_said(state: str, n: int) -> str:
    """What one or several arms are."""
    if n == 1:
        return Reach(state=state).kind
    return "winning tickets" if state == WON else "matching, but no winning tickets"


def _easy_said(table: pd.DataFrame) -> list[str]:
    """What the definition lets through: tickets by the spread of their seeds, or with a degenerate
    seed."""
    stars = table[table["state"].isin(TICKET)]
    wide, flat = int(stars["by_spread"].sum()), int((stars["degenerate"] > 0).sum())
    of, said = phrasing.count(len(stars), "ticket"), []
    if wide:
        verb = "matches" if wide == 1 else "match"
        why = "the mean lies below the full model's by more than its own deviation"
        said.append(f"{wide} of {of} {verb} only because seeds differ widely: {why}.")
    if flat:
        said.append(
            f"{flat} of {of} {'rests' if flat == 1 else 'rest'} on a seed that predicts one class"
            " only."
        )
    return said


def _reach(table: pd.DataFrame, method: str) -> Reach:
    return reach_of(table[table["method"] == method])


def _reach_said(table: pd.DataFrame, method: str) -> str:
    if method == "dense":
        return "nothing is cut by the full model"
    mine = table[table["method"] == method].sort_values("sparsity")
    reach, name = reach_of(mine), words.method_name(method)
    if mine.empty:
        return f"{name} was not measured here"
    return reach_said(reach, name, len(mine))


def reach_said(reach: Reach, name: str, levels: int) -> str:
    """How far an arm gets on all texts or one group; `levels`: how many were measured."""
    if reach.state == UNJUDGED:
        return (
            f"whether {name} is a ticket is left open: fewer than three of its seeds came to"
            " different models"
        )
    if not reach.share:
        return f"{name} is no ticket at any " + (
            f"of {phrasing.count(levels, 'level')}" if levels else "level"
        )
    but = f", though {reach.but}" if reach.but else ""
    return f"{name} is {reach.kind} up to {phrasing.percent(reach.share)} of heads cut{but}"


def _note(run: Run, table: pd.DataFrame) -> str:
    n = phrasing.count(int(table["n"].max()), "test text")
    fixed = "" if table["full_std"].notna().any() else f" {FIXED}"
    return f"{n}, {trials_said(run)}. {own.WINNING} {EASY} {MARKS}{fixed}"


def _group_figure(run: Run, choice: Choice, parts: dict[str, pd.DataFrame]) -> go.Figure:
    """A line per group: mean minus the full model's mean, stars where it is a ticket for that
    group."""
    worst = sorted(
        parts, key=lambda group: (parts[group]["mean"] - parts[group]["full_mean"]).min()
    )[:LONGEST]
    drawn = [group for group in parts if group in worst]
    height, title = HEIGHT + 20 * math.ceil(len(drawn) / 2), "accuracy minus the full model's"
    figure, shifts = blank(choice, height, "share of heads cut", title), beside(len(drawn), BESIDE)
    figure.add_hline(y=0, line={"color": choice.theme.ink, "width": 1, "dash": "dot"})
    for group, style, shift, dash in zip(
        drawn, series_styles(choice.dark), shifts, DASHES, strict=False
    ):
        rows, name = (
            parts[group].sort_values("realised").to_dict("records"),
            plain(words.group_name(group)),
        )
        texts = [
            "the full model",
            *(f"<b>{name}</b><br>{_hover(row, measure_of(run, group))}" for row in rows),
        ]
        y = [0.0, *(row["mean"] - row["full_mean"] for row in rows)]
        line = {"color": style.colour, "width": 2, "dash": dash}
        _add_tickets(
            figure, rows, shift, y, texts, style, style.symbol, (14, 9), 1.4, line=line, name=name
        )
        entry(figure, name, mode="lines+markers", line=line, marker=dot(style, 9))
    figure.update_xaxes(tickformat=".0%", nticks=5, tickangle=0, rangemode="tozero")
    figure.update_yaxes(nticks=7)
    return figure


def _groups_said(run: Run, choice: Choice, parts: dict[str, pd.DataFrame]) -> tuple[str, str]:
    """How far each group's ticket reaches, the shortest first; then what must be said about
    them."""
    if few := few_seeds(run):
        return few, ""
    every = {group: _reach(part, choice.method) for group, part in parts.items()}
    reach = {group: one for group, one in every.items() if one.state != UNJUDGED}
    name, whom = words.method_name(choice.method), f"subgroup of {words.axis_name(choice.measured)}"
    if not reach:
        return f"Whether {name} is a ticket for any {whom} is left open.", ""
    first, last = first_and_last(reach)
    least, most = reach[first[0]].unbroken, reach[last[0]].unbroken
    mind = but_said(reach).strip()
    if least == most:
        at = "any level" if not any(one.share for one in reach.values()) else "the first cut"
        far = (
            f"reaches {phrasing.percent(least)} for every {whom}"
            if least
            else f"is no ticket for any {whom} at {at}"
        )
        return phrasing.sentence(f"{name} {far}."), mind
    until = f"after {phrasing.percent(least)}" if least else "at the first cut"
    firsts, lasts = (phrasing.listing(map(words.quoted, some)) for some in (first, last))
    text = (
        f"With {name} the ticket is lost first for {firsts}, {until}; it lasts longest for {lasts}"
    )
    return f"{text}, up to {phrasing.percent(most)}.", mind


def _here(run: Run, choice: Choice, parts: dict[str, pd.DataFrame]) -> str:
    """The largest loss at the chosen level."""
    at, rows = lookup.level_of(run, choice), {}
    for group, part in parts.items():
        here = part[at_level(part["sparsity"], at)]
        if len(here):
            rows[group] = float((here["mean"] - here["full_mean"]).iloc[0])
    if not rows:
        return ""
    group = min(rows, key=rows.__getitem__)
    measure = measure_of(run, group)
    return (
        f"At {phrasing.percent(at)} {words.quoted(group)} loses most: {measure.signed(rows[group])}"
        f" {measure.name}."
    )


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    whole = (table["group"] == "").all()
    return readable(table.drop(columns="group") if whole else table, COLUMNS)

"""Is it still a ticket? The task's metric against the share of heads cut, against the full model (Figs. 6.6, 6.7)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.levels import at_level
from engine.report import phrasing
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain
from engine.report.palette import Style, series_styles
from engine.report.tracks import track_of
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
    level_of,
    measure_of,
    methods,
    reach_of,
    seeds_said,
    ticket_levels,
)

HEIGHT = 360
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""Of lines beside each other: stars hide the symbols that tell them apart. Six procedures, and groups at most."""
BESIDE = 0.012
"""Shares by which points of several lines are moved apart, so that bars do not hide each other."""
LONGEST = 5
"""Groups drawn at most."""
ALL_ARMS, OTHER_ARMS = "of all arms", "of the others"
ABSENT = "This run has no tickets: its full model was not measured over seeds."
MARKS = (
    "Band and bars: mean \u00b1 standard deviation over seeds, as the definition asks; filled stars: winning tickets, "
    "open stars: matching, but not trained from the pre-trained weights."
)
FIXED = "The full model is one fixed model, so it has no deviation."
EASY = "A model whose seeds differ widely meets it easily."


def tickets_curve(run: Run, choice: Choice, group: str = "") -> Panel:
    """Every procedure along the share of heads cut, one column per score; of all texts, or of one group."""
    axis = choice.measured if group else ""
    measure, whom = measure_of(run, group), f" for {words.quoted(group)}" if group else ""
    question = f"Up to which share of heads is it still a winning ticket{whom}?"
    table = ticket_levels(run, axis, group)
    if table.empty:
        return nothing("tickets_curve", question, ABSENT)
    scores = list(dict.fromkeys(arm_of(method)[1] for method in methods(run)))
    room = _room(table)
    parts = tuple(_column(run, choice, table, score, measure, room) for score in scores)
    return Panel(
        "tickets_curve", question, _answer(run, choice, table, group), None, _readable(table), _note(run, table), parts
    )


def tickets_by_group(run: Run, choice: Choice) -> Panel:
    """The chosen arm group by group: accuracy minus the full model's."""
    axis = words.axis_name(choice.measured)
    question = f"Still a winning ticket for whom of {axis}?"
    parts = {group: ticket_levels(run, choice.measured, group) for group in groups_of_axis(run, choice.measured)}
    parts = {group: part[part["method"] == choice.method] for group, part in parts.items() if not part.empty}
    parts = {group: part for group, part in parts.items() if not part.empty}
    if not parts:
        return nothing("tickets_by_group", question, "No subgroup of this axis has levels of its own for this choice.")
    table = pd.concat(parts.values(), ignore_index=True)
    figure = _group_figure(run, choice, parts)
    return Panel(
        "tickets_by_group", question, _groups_said(run, choice, parts), figure, _readable(table), _note(run, table)
    )


def _room(table: pd.DataFrame) -> tuple[float, float]:
    """What every column's y axis spans."""
    std, full = table["std"].fillna(0), table["full_std"].fillna(0)
    low = min((table["mean"] - std).min(), (table["full_mean"] - full).min())
    high = max((table["mean"] + std).max(), (table["full_mean"] + full).max())
    room = 0.07 * (high - low) or 0.01
    return float(low - room), float(high + room)


def _column(
    run: Run, choice: Choice, table: pd.DataFrame, score: str, measure: Any, room: tuple[float, float]
) -> go.Figure:
    """One score: a line per procedure, the full model as a band."""
    mine = table[table["method"].map(lambda method: arm_of(method)[1]) == score]
    names = [method for method in methods(run) if method in set(mine["method"])]
    figure = blank(choice, HEIGHT + 20 * math.ceil((len(names) + 2) / 2), y=measure.title)
    _full(figure, choice, mine)
    order = [name for name in names if name != choice.method] + [name for name in names if name == choice.method]
    for place, method in enumerate(order):
        shift = (place - (len(order) - 1) / 2) * BESIDE
        _line(run, figure, choice, mine[mine["method"] == method], method, shift, measure)
    _legend(figure, choice, names)
    figure.update_xaxes(title_text="share of heads cut", tickformat=".0%", nticks=5, tickangle=0, rangemode="tozero")
    figure.update_yaxes(range=list(room), nticks=7)
    figure.add_annotation(
        x=0, xref="paper", xanchor="left", y=1, yref="paper", yanchor="bottom", showarrow=False, yshift=2,
        text=f"<b>{plain(own.importance_name(score))}</b>", font={"size": 14},
    )  # fmt: skip
    figure.update_layout(legend={"y": 1.1, "font": {"size": 12}}, margin={"t": 30})
    return figure


def _full(figure: go.Figure, choice: Choice, table: pd.DataFrame) -> None:
    """The full model: its mean as a line, its deviation as a band."""
    row = table.iloc[0]
    std = 0.0 if math.isnan(row["full_std"]) else row["full_std"]
    mean = row["full_mean"]
    figure.add_hrect(y0=mean - std, y1=mean + std, fillcolor=choice.theme.band, line_width=0, layer="below")
    figure.add_hline(y=mean, line={"color": choice.theme.ink, "width": 1, "dash": "dot"})


def _line(
    run: Run, figure: go.Figure, choice: Choice, table: pd.DataFrame, method: str, shift: float, measure: Any
) -> None:
    """One arm from the full model on, tickets as stars."""
    style, chosen = track_of(run).style(method, choice.dark), method == choice.method
    rows = table.sort_values("realised").to_dict("records")
    x = [0.0, *(row["realised"] + shift for row in rows)]
    std = [None, *(row["std"] for row in rows)]
    symbols = [_symbol(row["state"], style) for row in rows]
    star, dot = (16, 9) if chosen else (12, 7)
    sizes = [star if row["state"] in TICKET else dot for row in rows]
    bars = {"type": "data", "array": std, "color": style.colour, "thickness": 2 if chosen else 1.2, "width": 0}
    figure.add_trace(go.Scatter(
        x=x, y=[rows[0]["full_mean"], *(row["mean"] for row in rows)], mode="lines+markers", error_y=bars,
        name=words.method_name(method), showlegend=False, opacity=1 if chosen else 0.85,
        line={"color": style.colour, "width": 3 if chosen else 1.6, "dash": _dash(method)},
        marker={"symbol": ["circle-open", *symbols], "size": [7, *sizes], "color": style.colour,
                "line": {"width": 1.6, "color": style.colour}},
        text=["the full model", *(_hover(row, measure) for row in rows)], hovertemplate="%{text}<extra></extra>",
    ))  # fmt: skip


def _dash(method: str) -> str:
    """That of the procedure: each score has a column of its own here."""
    order, procedure = list(own.PROCEDURES), arm_of(method)[0]
    return DASHES[order.index(procedure) % len(DASHES) if procedure in order else -1]


def _symbol(state: str, style: Style) -> str:
    return {WON: "star", MATCHING: "star-open"}.get(state, style.symbol)


def _hover(row: dict[str, Any], measure: Any) -> str:
    kind = {WON: "winning ticket", LOST: "no ticket", UNJUDGED: "too few seeds to judge"}
    said = kind.get(row["state"], "matching, not a winning ticket")
    text = f"<b>{words.method_name(row['method'])}</b>, {phrasing.percent(row['sparsity'])} asked"
    text += f"<br>{measure.name} {spread(row['mean'], row['std'], measure)} over {row['n_seeds']:.0f} seeds"
    text += f"<br>full model {spread(row['full_mean'], row['full_std'], measure)}<br>{said}"
    text += "<br>by the spread of its seeds only" if row["by_spread"] else ""
    return text + ("<br>a seed predicts one class only" if row.get("degenerate", 0) > 0 else "")


def _legend(figure: go.Figure, choice: Choice, order: Sequence[str]) -> None:
    from engine.report.palette import ticket_style

    for method in order:
        style = ticket_style(method, choice.dark)
        marker = {
            "symbol": style.symbol,
            "size": 8,
            "color": style.colour,
            "line": {"width": 1.6, "color": style.colour},
        }
        _entry(figure, own.procedure_name(arm_of(method)[0]), mode="lines+markers", marker=marker,
               line={"color": style.colour, "dash": _dash(method), "width": 2})  # fmt: skip
    ink = choice.theme.ink
    _entry(figure, "full model", mode="lines", line={"color": ink, "dash": "dot", "width": 1})


def _entry(figure: go.Figure, name: str, **more: Any) -> None:
    """Something that is only in the legend."""
    figure.add_trace(go.Scatter(x=[None], y=[None], name=name, showlegend=True, hoverinfo="skip", **more))


def _answer(run: Run, choice: Choice, table: pd.DataFrame, group: str) -> str:
    """How far the chosen arm gets, then the arm that gets furthest."""
    measure = measure_of(run, group)
    row = table.iloc[0]
    start = f"The full model's {measure.name} is {spread(row['full_mean'], row['full_std'], measure)}."
    if few := few_seeds(run):
        return f"{start} {few}"
    parts = [start, f"{phrasing.sentence(_reach_said(table, choice.method))}."]
    known = set(table["method"])
    others = [method for method in methods(run) if method != choice.method and method in known]
    if others:
        parts.append(furthest_said({method: _reach(table, method) for method in others}, OTHER_ARMS))
    return " ".join([*parts, *_easy_said(table)])


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
        named = [words.method_name(name) + (f" ({reach[name].but})" if reach[name].but else "") for name in arms]
        if named:
            parts[_kind_said(state, len(named))] = phrasing.listing(named)
    far = f"up to {phrasing.percent(end)} of heads cut"
    if len(parts) == 1:
        kind, names = next(iter(parts.items()))
        return f"{phrasing.sentence(whom)} {names} {'gets' if len(best) == 1 else 'get'} furthest: {kind} {far}."
    each = "; ".join(f"{names}, {kind}" for kind, names in parts.items())
    return f"{phrasing.sentence(whom)} these get furthest, {far}: {each}."


def _kind_said(state: str, n: int) -> str:
    """What one or several arms are."""
    if n == 1:
        return Reach(state=state).kind
    return "winning tickets" if state == WON else "matching, but no winning tickets"


def _easy_said(table: pd.DataFrame) -> list[str]:
    """What the definition forgives: tickets by the spread of their seeds, or with a seed that tells nothing apart."""
    stars = table[table["state"].isin(TICKET)]
    wide, flat = int(stars["by_spread"].sum()), int((stars["degenerate"] > 0).sum())
    said = []
    if wide:
        verb = "matches" if wide == 1 else "match"
        said.append(
            f"{wide} of {phrasing.count(len(stars), 'ticket')} {verb} only because seeds differ widely: the mean lies below "
            "the full model's by more than its own deviation."
        )
    if flat:
        verb = "rests" if flat == 1 else "rest"
        said.append(f"{flat} of {phrasing.count(len(stars), 'ticket')} {verb} on a seed that predicts one class only.")
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
        return f"whether {name} is a ticket is left open: fewer than three of its seeds came to different models"
    if not reach.share:
        return f"{name} is no ticket at any " + (f"of {phrasing.count(levels, 'level')}" if levels else "level")
    but = f", though {reach.but}" if reach.but else ""
    return f"{name} is {reach.kind} up to {phrasing.percent(reach.share)} of heads cut{but}"


def _note(run: Run, table: pd.DataFrame) -> str:
    n = phrasing.count(int(table["n"].max()), "test text")
    fixed = "" if table["full_std"].notna().any() else f" {FIXED}"
    return f"{n}, {seeds_said(run)}. {own.WINNING} {EASY} {MARKS}{fixed}"


def _group_figure(run: Run, choice: Choice, parts: dict[str, pd.DataFrame]) -> go.Figure:
    """A line per group: mean minus the full model's mean, stars where it is a ticket for that group."""
    worst = sorted(parts, key=lambda group: (parts[group]["mean"] - parts[group]["full_mean"]).min())[:LONGEST]
    drawn = [group for group in parts if group in worst]
    figure = blank(
        choice, HEIGHT + 20 * math.ceil(len(drawn) / 2), "share of heads cut", "accuracy minus the full model's"
    )
    figure.add_hline(y=0, line={"color": choice.theme.ink, "width": 1, "dash": "dot"})
    for place, (group, style) in enumerate(zip(drawn, series_styles(choice.dark), strict=False)):
        shift = (place - (len(drawn) - 1) / 2) * BESIDE
        rows = parts[group].sort_values("realised").to_dict("records")
        symbols = [_symbol(row["state"], style) for row in rows]
        sizes = [7, *(14 if row["state"] in TICKET else 9 for row in rows)]
        line = {"width": 1.6, "color": style.colour}
        marker = {"symbol": [style.symbol, *symbols], "color": style.colour, "line": line, "size": sizes}
        measure, named = measure_of(run, group), f"<b>{plain(words.group_name(group))}</b>"
        figure.add_trace(go.Scatter(
            x=[0.0, *(row["realised"] + shift for row in rows)],
            y=[0.0, *(row["mean"] - row["full_mean"] for row in rows)], mode="lines+markers", showlegend=False,
            error_y={"type": "data", "array": [None, *(row["std"] for row in rows)], "color": style.colour, "width": 0,
                     "thickness": 1.4},
            line={"color": style.colour, "width": 2, "dash": DASHES[place]}, marker=marker,
            name=plain(words.group_name(group)),
            text=["the full model", *(f"{named}<br>{_hover(row, measure)}" for row in rows)],
            hovertemplate="%{text}<extra></extra>",
        ))  # fmt: skip
        _entry(figure, plain(words.group_name(group)), mode="lines+markers",
               line={"color": style.colour, "width": 2, "dash": DASHES[place]},
               marker={"symbol": style.symbol, "size": 9, "color": style.colour})  # fmt: skip
    figure.update_xaxes(tickformat=".0%", nticks=5, tickangle=0, rangemode="tozero")
    figure.update_yaxes(nticks=7)
    return figure


def _groups_said(run: Run, choice: Choice, parts: dict[str, pd.DataFrame]) -> str:
    """How far each group's ticket reaches, the shortest first."""
    if few := few_seeds(run):
        return f"{few} {_here(run, choice, parts)}".strip()
    every = {group: _reach(part, choice.method) for group, part in parts.items()}
    reach = {group: one for group, one in every.items() if one.state != UNJUDGED}
    name, whom = words.method_name(choice.method), f"subgroup of {words.axis_name(choice.measured)}"
    if not reach:
        return f"Whether {name} is a ticket for any {whom} is left open. {_here(run, choice, parts)}".strip()
    first, last = first_and_last(reach)
    least, most = reach[first[0]].unbroken, reach[last[0]].unbroken
    more = f"{but_said(reach)} {_here(run, choice, parts)}".rstrip()
    if least == most:
        at = "any level" if not any(one.share for one in reach.values()) else "the first cut"
        far = f"reaches {phrasing.percent(least)} for every {whom}" if least else f"is no ticket for any {whom} at {at}"
        return phrasing.sentence(f"{name} {far}.{more}")
    until = f"after {phrasing.percent(least)}" if least else "at the first cut"
    return (
        f"With {name} the ticket is lost first for {phrasing.listing(map(words.quoted, first))}, {until}; it lasts longest "
        f"for {phrasing.listing(map(words.quoted, last))}, up to {phrasing.percent(most)}.{more}"
    )


def _here(run: Run, choice: Choice, parts: dict[str, pd.DataFrame]) -> str:
    """The largest loss at the chosen level."""
    at, rows = level_of(run, choice), {}
    for group, part in parts.items():
        here = part[at_level(part["sparsity"], at)]
        if len(here):
            rows[group] = float((here["mean"] - here["full_mean"]).iloc[0])
    if not rows:
        return ""
    group = min(rows, key=rows.get)
    measure = measure_of(run, group)
    return f"At {phrasing.percent(at)} {words.quoted(group)} loses most: {measure.signed(rows[group])} {measure.name}."


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    names = {"method": "method", "group": "subgroup", "sparsity": "share asked", "realised": "share cut",
             "metric": "metric", "mean": "mean", "std": "standard deviation", "full_mean": "full model's mean",
             "full_std": "full model's standard deviation", "n_seeds": "seeds", "n": "texts",
             "state": "ticket"}  # fmt: skip
    shown = table.assign(method=table["method"].map(words.method_name), group=table["group"].map(words.group_name),
                         metric=table["metric"].map(words.metric_name))  # fmt: skip
    if (table["group"] == "").all():
        shown = shown.drop(columns="group")
    return shown[[name for name in names if name in shown]].rename(columns=names)

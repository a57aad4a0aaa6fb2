"""Is it still a ticket? The task's metric against the share of heads cut, against the full model
(Figs. 6.6, 6.7)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.heat_map import table_map
from engine.report.charts.kinds import lines, looks_of
from engine.report.charts.marks import DASHES
from engine.report.charts.panel import Choice, Panel, nothing, plain, wrapped
from engine.report.contract import Measure
from engine.report.palette import Style, quiet
from engine.report.schema import group_or, hovers, readable
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.text_classifiers import words as own
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
    from_pretrained,
    groups_of_axis,
    measure_of,
    reach_of,
    reaches,
    spread,
    state_of,
    ticket_levels,
    tickets,
)
from engine.tracks.text_classifiers.words import arm_style

BESIDE = 0.012
"""Shares by which points of several lines are moved apart, so that bars do not hide each other."""
LONGEST = 5
"""Groups drawn at most."""
ALL_ARMS, OTHER_ARMS = "of all methods", "of the others"
ABSENT = "This run has no tickets: its full model was not measured over seeds."
MARKS = (
    "Band and bars: mean \u00b1 standard deviation over seeds, as the definition asks. Filled "
    "stars: winning tickets; open stars: matching, but not trained from the pre-trained weights."
)
FIXED = "The full model is one fixed model, so it has no deviation."
EASY = "A model whose seeds differ widely meets it easily."
COLUMNS = "method group sparsity realised metric mean std full_mean full_std n_seeds n state"
KINDS = {WON: "winning ticket", LOST: "no ticket", UNJUDGED: "too few seeds to judge"}
SHARE, FULL = "share of heads cut", "full model"


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
    looks = {
        name: _look(choice, name) for name in lookup.methods(run) if name in set(mine["method"])
    }
    mean, std = (float(mine[name].fillna(0.0).iat[0]) for name in ("full_mean", "full_std"))
    figure = lines(
        choice,
        _drawn(mine, measure),
        "realised",
        "mean",
        looks,
        (SHARE, measure.title),
        named=lambda method: own.procedure_name(arm_of(method)[0]),
        title=plain(own.importance_name(score)),
        apart=BESIDE,
        bars="- mean",
        level=(mean, FULL),
    )
    ends = {"y0": mean - std, "y1": mean + std}
    figure.add_hrect(**ends, fillcolor=choice.theme.band, line_width=0, layer="below")
    figure.update_yaxes(range=list(room))
    return figure


def _drawn(table: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """What lines of tickets are drawn of: each line from the full model on, tickets as stars."""
    kind = table["state"].map(KINDS).fillna("matching, not a winning ticket")
    said = hovers(
        table.assign(kind=kind),
        "method group sparsity mean std n_seeds full_mean full_std kind by_spread degenerate",
        mean=measure.name,
        by_spread=lambda so: "by the spread of its seeds only" if so else "",
        degenerate=lambda seeds: "a seed predicts one class only" if seeds > 0 else "",
    )
    stars = table["state"].map({WON: "star", MATCHING: "star-open"})
    table = table.assign(hover=said, symbol=stars, size=np.where(stars.notna(), 15, 8))
    full = table.groupby(["method", "group"], as_index=False).first()
    full = full.assign(realised=0.0, mean=full["full_mean"], std=math.nan, hover=f"the {FULL}")
    whole = pd.concat([full.assign(symbol=None, size=7), table], ignore_index=True)
    whole = whole.sort_values("realised", kind="stable")
    ends = {"mean_low": whole["mean"] - whole["std"], "mean_high": whole["mean"] + whole["std"]}
    return whole.assign(**ends)


def _look(choice: Choice, method: str) -> Style:
    """The chosen procedure in its colour, in every score's column; the others grey. The dash is of
    the procedure: each score has a column of its own."""
    style, mine = arm_style(method, choice.dark), arm_of(method)[0]
    order = list(own.PROCEDURES)
    dash = DASHES[order.index(mine) % len(DASHES) if mine in order else -1]
    chosen = choice.method in ("", "dense") or mine == arm_of(choice.method)[0]
    return replace(style if chosen else quiet(style, choice.dark), dash=dash)


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
        other = "any arm" if whom == ALL_ARMS else "any other method"
        if unknown:
            return f"These data do not tell whether {other} is a ticket."
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
        return f"{name} may be a ticket: fewer than three of its seeds came to different models"
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
    lost = {group: (part["mean"] - part["full_mean"]).min() for group, part in parts.items()}
    worst = sorted(parts, key=lost.__getitem__)[:LONGEST]
    looks = looks_of(choice, [group for group in parts if group in worst])
    drawn = _drawn(pd.concat(parts.values()), measure_of(run, worst[0]))
    ends = {name: drawn[name] - drawn["full_mean"] for name in ("mean", "mean_low", "mean_high")}
    return lines(
        choice,
        drawn.assign(**ends),
        "realised",
        "mean",
        looks,
        (SHARE, "accuracy minus the full model's"),
        by="group",
        named=lambda group: plain(words.group_name(group)),
        apart=BESIDE,
        bars="- mean",
        level=(0, FULL),
    )


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
    return readable(table.drop(columns="group") if whole else table, COLUMNS, n="texts")


ALL = "all texts"
STAR, DAGGER = "\u2605", "\u2020"
Reaches = dict[tuple[str, str], Reach]
OTHERS = " The chart shows what shares procedure or score with the choice; the table has all."
MOST_GROUPS = 6
"""Groups in the chart at most; the table always has all of them."""
TICKET_COLUMNS = (
    "method axis group metric sparsity unbroken state mean std full_mean full_std n_seeds"
)


def tickets_table(run: Run, choice: Choice) -> Panel:
    """Arms against all texts and the groups of the chosen axis: the largest share that is a
    ticket."""
    axis = words.axis_name(choice.measured)
    question = f"How many heads can go, and for which groups of {axis} is that too many first?"
    table = tickets(run)
    if table.empty:
        return nothing("tickets_table", question, ABSENT)
    mine = table[(table["group"] == "") | (table["axis"] == choice.measured)]
    reach = reaches(run, choice.measured)
    mine = mine.assign(state=[_table_state(run, reach, row) for row in mine.to_dict("records")])
    groups = [
        group for group in groups_of_axis(run, choice.measured) if group in set(mine["group"])
    ]
    figure = _table_figure(run, choice, mine, reach, ["", *groups[:MOST_GROUPS]])
    hidden = len(groups) - MOST_GROUPS
    more = f" {hidden} more subgroups are in the table." if hidden > 0 else ""
    more += "" if len(_arms(run, choice, mine)) == mine["method"].nunique() else OTHERS
    note = (
        f"{own.WINNING} {EASY} {trials_said(run)}. Stars: winning; without a star: matching only;"
        " in brackets: only because its seeds differ widely; \u2020: some smaller share is"
        f" none.{more}"
    )
    answer, rest, mind = _table_answer(run, choice, mine, reach, groups)
    return Panel(
        "tickets_table",
        question,
        answer,
        figure,
        readable(
            mine,
            TICKET_COLUMNS,
            group=group_or(ALL),
            sparsity="largest share",
            unbroken="unbroken up to",
        ),
        note,
        mind=mind,
        more=rest,
    )


def _table_state(run: Run, reach: Reaches, row: dict[str, Any]) -> str:
    """The state of the largest ticket; where there is none, whether any level could be judged."""
    if found := reach.get((row["method"], row["group"])):
        return found.state
    return state_of(
        from_pretrained(run, row["method"]), not math.isnan(row["sparsity"]), row["n_seeds"]
    )


def _table_answer(
    run: Run, choice: Choice, table: pd.DataFrame, reach: Reaches, groups: list[str]
) -> tuple[str, str, str]:
    """The chosen arm: overall; then the group that loses it first; then what must be said about
    larger shares."""
    if few := few_seeds(run):
        return few, "", ""
    mine = table[table["method"] == choice.method].set_index("group")
    if mine.empty:
        whole = {method: one for (method, group), one in reach.items() if not group}
        return furthest_said(whole, ALL_ARMS) if whole else "Nothing was measured.", "", ""
    name, parts = words.method_name(choice.method), []
    if "" in mine.index:
        row, one = mine.loc[""], reach.get((choice.method, ""), Reach())
        said = f"On all texts {reach_said(one, name, 0)}"
        if not math.isnan(row["sparsity"]):
            measure = measure_of(run, "")
            full = spread(row["full_mean"], row["full_std"], measure)
            said += f" ({measure.name} {spread(row['mean'], row['std'], measure)} against {full})"
        parts.append(f"{said}.")
    alone = {
        group: reach.get((choice.method, group), Reach()) for group in groups if group in mine.index
    }
    alone = {group: one for group, one in alone.items() if one.state != UNJUDGED}
    if alone:
        parts.append(_lost_first(alone, choice))
    first = phrasing.sentence(parts[0]) if parts else "Nothing can be judged."
    return first, " ".join(parts[1:]), but_said(alone).strip() if alone else ""


def _lost_first(alone: dict[str, Reach], choice: Choice) -> str:
    """Which subgroup loses it first as more and more is cut."""
    first, last = first_and_last(alone)
    least, most = alone[first[0]].unbroken, alone[last[0]].unbroken
    if least == most:
        who = "every" if least else "no"
        at = "any level" if not any(one.share for one in alone.values()) else "the smallest share"
        far = f"up to {phrasing.percent(least)}" if least else f"at {at}"
        return f"Alone, {who} subgroup of {words.axis_name(choice.measured)} has it {far}."
    verbs = ["has" if len(some) == 1 else "have" for some in (first, last)]
    far = (
        f"{verbs[0]} it up to {phrasing.percent(least)} only"
        if least
        else f"{verbs[0]} it at no level"
    )
    if not least and any(alone[group].share for group in first):
        far = f"{'does' if len(first) == 1 else 'do'} not have it at the smallest share"
    alone_said = "which alone" if len(first) == 1 else "which by themselves"
    firsts, lasts = (phrasing.listing(map(words.quoted, some)) for some in (first, last))
    return (
        f"It is lost first for {firsts}, {alone_said} {far}; {lasts} {verbs[1]} it up to"
        f" {phrasing.percent(most)}."
    )


def _arms(run: Run, choice: Choice, table: pd.DataFrame) -> list[str]:
    """Arms in the chart: those that are compared with the chosen one."""
    known = [method for method in lookup.methods(run) if method in set(table["method"])]
    return track_of(run).compared(known, choice.method)


def _table_figure(
    run: Run, choice: Choice, table: pd.DataFrame, reach: Reaches, groups: list[str]
) -> go.Figure:
    """Cells with the share written in them; colour: how much can go."""
    order, known = _arms(run, choice, table), table.set_index(["method", "group"])
    keys = [[(method, group) for group in groups] for method in order]
    found = {key: known.loc[key] for row in keys for key in row if key in known.index}
    cells = [
        [_cell(run, key, found.get(key), reach.get(key, Reach())) for key in row] for row in keys
    ]
    values = [[found[key]["sparsity"] if key in found else 0.0 for key in row] for row in keys]
    names = [wrapped(words.method_name(method), 18) for method in order]
    if choice.method in order:
        place = order.index(choice.method)
        names[place] = f"<b>{names[place]}</b>"
    across = [wrapped(group_or(ALL)(group), 12) for group in groups]
    figure = table_map(choice, np.nan_to_num(np.array(values, float)), names, across, cells)
    figure.update_layout(margin={"t": 44})
    return figure


def _cell(run: Run, key: tuple[str, str], row: Any, reach: Reach) -> tuple[str, str]:
    """What stands in a cell, and what is said when it is pointed at."""
    method, group = key
    whom = f"<b>{words.method_name(method)}</b>, {plain(group_or(ALL)(group))}"
    if row is None:
        return "", f"{whom}<br>not measured"
    measure = measure_of(run, group)
    full = f"full model {spread(row['full_mean'], row['full_std'], measure)}"
    if row["state"] == UNJUDGED:
        return "?", f"{whom}<br>too few different models to judge; {full}"
    if math.isnan(row["sparsity"]):
        return "none", f"{whom}<br>no ticket at any level; {full}"
    broken, won = not row["unbroken"] >= row["sparsity"], row["state"] == WON
    until, share = (phrasing.percent(row[name]) for name in ("unbroken", "sparsity"))
    lines = [
        whom,
        f"{'winning ticket' if won else 'matching only'} up to {share}",
        f"{measure.name} {spread(row['mean'], row['std'], measure)}, {full}",
        f"unbroken up to {until if row['unbroken'] > 0 else 'none'}" if broken else "",
        "only because its seeds differ widely" if reach.by_spread else "",
    ]
    share, star = f"{share}{DAGGER if broken else ''}", f"{STAR}<br>" if won else ""
    if reach.by_spread:
        return f"({STAR})<br>{share}" if won else f"({share})", "<br>".join(filter(None, lines))
    return f"{star}{share}", "<br>".join(filter(None, lines))

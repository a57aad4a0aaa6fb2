"""The table of winning tickets: how far every arm gets, on all texts and for each group (Table 6.2
of the thesis)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.columns import METHOD, Column, group_or, readable, titled
from engine.report.charts.heat_map import cells, write
from engine.report.charts.panel import Choice, Panel, blank, nothing, plain, wrapped
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.curve import (
    ABSENT,
    ALL_ARMS,
    EASY,
    furthest_said,
    reach_said,
)
from engine.tracks.text_classifiers.panels.headline import spread
from engine.tracks.text_classifiers.panels.lookup import (
    UNJUDGED,
    WON,
    Reach,
    but_said,
    few_seeds,
    first_and_last,
    from_pretrained,
    groups_of_axis,
    measure_of,
    reaches,
    state_of,
    tickets,
)

ALL = "all texts"
STAR, DAGGER = "\u2605", "\u2020"
Reaches = dict[tuple[str, str], Reach]
OTHERS = (
    " The chart shows the arms that share procedure or score with the chosen one; the table has"
    " all."
)
LONGEST = 6
"""Groups in the chart at most; the table always has all of them."""
COLUMNS = (
    METHOD,
    Column("axis", "axis", words.axis_name),
    Column("group", "subgroup", group_or(ALL)),
    Column("metric", "metric", words.metric_name),
    *titled(sparsity="largest share", unbroken="unbroken up to", state="ticket", mean="mean"),
    *titled(
        std="standard deviation",
        full_mean="full model's mean",
        full_std="full model's standard deviation",
    ),
    *titled(n_seeds="seeds"),
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
    mine = mine.assign(state=[_state(run, reach, row) for row in mine.to_dict("records")])
    groups = [
        group for group in groups_of_axis(run, choice.measured) if group in set(mine["group"])
    ]
    figure = _figure(run, choice, mine, reach, ["", *groups[:LONGEST]])
    hidden = len(groups) - LONGEST
    more = f" {hidden} more subgroups are in the table." if hidden > 0 else ""
    more += "" if len(_arms(run, choice, mine)) == mine["method"].nunique() else OTHERS
    note = (
        f"{own.WINNING} {EASY} {trials_said(run)}. Stars: winning; without a star: matching only;"
        " in brackets: only because its seeds differ widely; \u2020: some smaller share is"
        f" none.{more}"
    )
    answer, rest, mind = _answer(run, choice, mine, reach, groups)
    return Panel(
        "tickets_table",
        question,
        answer,
        figure,
        readable(mine, COLUMNS),
        note,
        mind=mind,
        more=rest,
    )


def _state(run: Run, reach: Reaches, row: dict[str, Any]) -> str:
    """The state of the largest ticket; where there is none, whether any level could be judged."""
    if found := reach.get((row["method"], row["group"])):
        return found.state
    return state_of(
        from_pretrained(run, row["method"]), not math.isnan(row["sparsity"]), row["n_seeds"]
    )


def _answer(
    run: Run, choice: Choice, table: pd.DataFrame, reach: Reaches, groups: list[str]
) -> tuple[str, str, str]:
    """The chosen arm: overall; then the group that loses it first; then what must be said about
    larger shares."""
    if few := few_seeds(run):
        return few, "", ""
    mine = table[table["method"] == choice.method].set_index("group")
    if mine.empty:
        whole = {method: one for (method, group), one in reach.items() if not group}
        return furthest_said(whole, ALL_ARMS) if whole else "No arm was measured.", "", ""
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
    first = phrasing.sentence(parts[0]) if parts else "No arm can be judged."
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


def _figure(
    run: Run, choice: Choice, table: pd.DataFrame, reach: Reaches, groups: list[str]
) -> go.Figure:
    """Cells with the share written in them; colour: how much can go."""
    order, known = _arms(run, choice, table), table.set_index(["method", "group"])
    shape = (len(order), len(groups))
    values, texts, hovers = np.zeros(shape), np.full(shape, "", object), np.full(shape, "", object)
    for place in np.ndindex(shape):
        key = order[place[0]], groups[place[1]]
        row = known.loc[key] if key in known.index else None
        texts[place], hovers[place] = _cell(run, key, row, reach.get(key, Reach()))
        values[place] = 0.0 if row is None else np.nan_to_num(row["sparsity"])
    names = {method: wrapped(words.method_name(method), 18) for method in order}
    lines = max((name.count("<br>") + 1 for name in names.values()), default=1)
    figure = blank(choice, 110 + max(40, 16 * lines + 8) * len(order))
    down, across = list(range(len(order))), list(range(len(groups)))
    look = {"x": across, "y": down, "zmin": 0, "zmax": 1, "xgap": 3, "ygap": 3, "showscale": False}
    look |= {
        "customdata": hovers,
        "hovertemplate": "%{customdata}<extra></extra>",
        "hoverongaps": None,
    }
    cells(figure, values, choice.theme.sequential, **look)
    for y, x in np.ndindex(shape):
        write(figure, choice, x, y, str(texts[y, x]), bool(values[y, x] > 0.72), 12)
    named = [
        f"<b>{name}</b>" if method == choice.method else name for method, name in names.items()
    ]
    figure.update_yaxes(
        tickvals=down, ticktext=named, autorange="reversed", showgrid=False, showline=False
    )
    columns = [wrapped(group_or(ALL)(group), 12) for group in groups]
    figure.update_xaxes(
        tickvals=across, ticktext=columns, side="top", showline=False, tickfont={"size": 11}
    )
    figure.update_xaxes(autotickangles=[0, -45])
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

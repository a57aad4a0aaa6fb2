"""The table of winning tickets: how far every arm gets, on all texts and for each group (Table 6.2 of the thesis)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine import words
from engine.export import say
from engine.export.panels.base import Choice, Panel, blank, nothing, plain, wrapped
from engine.export.panels.tickets_curve import ABSENT, EASY
from engine.export.panels.tickets_headline import spread
from engine.export.panels.tickets_lookup import (
    LEAST_SEEDS,
    WON,
    few_seeds,
    from_pretrained,
    groups_of_axis,
    measure_of,
    methods,
    seeds_said,
    state_of,
    tickets,
)
from engine.export.tracks import track_of
from engine.store.runs import Run

ALL = "all texts"
OTHERS = " The chart shows the arms that share procedure or score with the chosen one; the table has all."
LONGEST = 6
"""Groups in the chart at most; the table always has all of them."""


def tickets_table(run: Run, choice: Choice) -> Panel:
    """Arms against all texts and the groups of the chosen axis: the largest share that is a ticket."""
    axis = words.axis_name(choice.measured)
    question = f"Which is the largest winning ticket, and for whom of {axis} is it lost first?"
    table = tickets(run)
    if table.empty:
        return nothing("tickets_table", question, ABSENT)
    mine = table[(table["group"] == "") | (table["axis"] == choice.measured)]
    mine = mine.assign(state=[_state(run, row) for row in mine.to_dict("records")])
    groups = [group for group in groups_of_axis(run, choice.measured) if group in set(mine["group"])]
    figure = _figure(run, choice, mine, ["", *groups[:LONGEST]])
    hidden = len(groups) - LONGEST
    more = f" {hidden} more subgroups are in the table." if hidden > 0 else ""
    more += "" if len(_arms(run, choice, mine)) == mine["method"].nunique() else OTHERS
    note = (
        f"{words.WINNING} {EASY} {seeds_said(run)}. Stars: winning; without a star: matching only; "
        f"\u2020: some smaller share is none.{more}"
    )
    return Panel("tickets_table", question, _answer(run, choice, mine, groups), figure, _readable(mine), note)


def _state(run: Run, row: dict[str, Any]) -> str:
    return state_of(run, row["method"], not math.isnan(row["sparsity"]), row["n_seeds"])


def _answer(run: Run, choice: Choice, table: pd.DataFrame, groups: list[str]) -> str:
    """The chosen arm: overall, then the group that loses it first."""
    if few := few_seeds(run):
        return few
    mine = table[table["method"] == choice.method].set_index("group")
    if mine.empty:
        best = table[(table["group"] == "") & table["sparsity"].notna()].sort_values("sparsity")
        if best.empty:
            return "No arm is a ticket at any level."
        last = best.iloc[-1]
        return f"Furthest gets {words.method_name(last['method'])}: {say.percent(last['sparsity'])} of heads cut."
    name, parts = words.method_name(choice.method), []
    if "" in mine.index:
        row = mine.loc[""]
        if math.isnan(row["sparsity"]):
            parts.append(f"{name} is no ticket on all texts at any level")
        else:
            measure = measure_of(run, "")
            kind = "a winning ticket" if row["state"] == WON else "matching, but no winning ticket,"
            parts.append(
                f"On all texts {name} is {kind} up to {say.percent(row['sparsity'])} of heads cut "
                f"({measure.name} {spread(row['mean'], row['std'], measure)} against "
                f"{spread(row['full_mean'], row['full_std'], measure)})"
            )
    reach = {group: np.nan_to_num(mine.loc[group, "sparsity"]) for group in groups if group in mine.index}
    if reach:
        parts.append(_lost_first(reach, choice))
    return say.sentence(f"{'. '.join(parts)}.")


def _lost_first(reach: dict[str, float], choice: Choice) -> str:
    least, most = min(reach.values()), max(reach.values())
    if least == most:
        who = "every" if least else "no"
        far = f"up to {say.percent(least)}" if least else "at any level"
        return f"Alone, {who} subgroup of {words.axis_name(choice.measured)} has it {far}"
    first = say.listing(words.quoted(group) for group, value in reach.items() if value == least)
    last = say.listing(words.quoted(group) for group, value in reach.items() if value == most)
    far = f"has it up to {say.percent(least)} only" if least else "has it at no level"
    return f"It is lost first for {first}, which alone {far}; {last} has it up to {say.percent(most)}"


def _arms(run: Run, choice: Choice, table: pd.DataFrame) -> list[str]:
    """Arms in the chart: those that are compared with the chosen one."""
    known = [method for method in methods(run) if method in set(table["method"])]
    return track_of(run).compared(known, choice.method)


def _figure(run: Run, choice: Choice, table: pd.DataFrame, groups: list[str]) -> go.Figure:
    """Cells with the share written in them; colour: how much can go."""
    order = _arms(run, choice, table)
    cells = table.set_index(["method", "group"])
    shape = (len(order), len(groups))
    values, texts, hover = np.zeros(shape), np.full(shape, "", object), np.full(shape, "", object)
    for place in np.ndindex(shape):
        key = order[place[0]], groups[place[1]]
        row = cells.loc[key] if key in cells.index else None
        texts[place], hover[place] = _cell(run, key, row)
        values[place] = 0.0 if row is None else np.nan_to_num(row["sparsity"])
    names = [wrapped(words.method_name(method), 18) for method in order]
    lines = max((name.count("<br>") + 1 for name in names), default=1)
    figure = blank(choice, 84 + max(34, 16 * lines + 8) * len(order))
    look = choice.theme
    figure.add_trace(go.Heatmap(
        z=values, x=list(range(len(groups))), y=list(range(len(order))), zmin=0, zmax=1, xgap=3, ygap=3,
        colorscale=[list(stop) for stop in look.sequential], showscale=False, customdata=hover,
        hovertemplate="%{customdata}<extra></extra>",
    ))  # fmt: skip
    strong = "#0b0f14" if choice.dark else "#ffffff"
    for y, x in np.ndindex(shape):
        figure.add_annotation(x=x, y=y, text=texts[y, x], showarrow=False,
                              font={"size": 13, "color": strong if values[y, x] > 0.72 else look.ink})  # fmt: skip
    named = [f"<b>{name}</b>" if method == choice.method else name for method, name in zip(order, names, strict=True)]
    figure.update_yaxes(tickvals=list(range(len(order))), ticktext=named, autorange="reversed", showgrid=False,
                        showline=False)  # fmt: skip
    columns = [ALL if not group else wrapped(words.group_name(group), 10) for group in groups]
    figure.update_xaxes(tickvals=list(range(len(groups))), ticktext=columns, side="top", showline=False, tickangle=0)
    figure.update_layout(margin={"t": 44})
    return figure


def _cell(run: Run, key: tuple[str, str], row: Any) -> tuple[str, str]:
    """What stands in a cell, and what is said when it is pointed at."""
    method, group = key
    whom = f"<b>{words.method_name(method)}</b>, {plain(words.group_name(group)) if group else ALL}"
    if row is None:
        return "", f"{whom}<br>not measured"
    measure = measure_of(run, group)
    full = f"full model {spread(row['full_mean'], row['full_std'], measure)}"
    if row["n_seeds"] < LEAST_SEEDS:
        return "?", f"{whom}<br>too few seeds to judge; {full}"
    if math.isnan(row["sparsity"]):
        return "none", f"{whom}<br>no ticket at any level; {full}"
    broken = not row["unbroken"] >= row["sparsity"]
    star = "\u2605 " if from_pretrained(run, method) else ""
    kind = "winning ticket" if star else "matching only"
    text = f"{whom}<br>{kind} up to {say.percent(row['sparsity'])}<br>{measure.name} "
    text += f"{spread(row['mean'], row['std'], measure)}, {full}"
    if broken:
        until = say.percent(row["unbroken"]) if row["unbroken"] > 0 else "none"
        text += f"<br>unbroken up to {until}"
    return f"{star}{say.percent(row['sparsity'])}" + ("\u2020" if broken else ""), text


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    names = {"method": "method", "axis": "axis", "group": "subgroup", "metric": "metric", "sparsity": "largest share",
             "unbroken": "unbroken up to", "state": "ticket", "mean": "mean", "std": "standard deviation",
             "full_mean": "full model's mean", "full_std": "full model's standard deviation",
             "n_seeds": "seeds"}  # fmt: skip
    shown = table.assign(
        method=table["method"].map(words.method_name), metric=table["metric"].map(words.metric_name),
        group=table["group"].map(lambda group: words.group_name(group) if group else ALL),
        axis=table["axis"].map(words.axis_name),
    )  # fmt: skip
    return shown[list(names)].rename(columns=names)

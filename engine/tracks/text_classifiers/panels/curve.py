"""Is it still a ticket? The task's metric against the share of heads cut, against the full model
(Figs. 6.6, 6.7)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.types import Values, at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.by_group import ByGroup, dumbbell, pairs, shown
from engine.report.charts.heat_map import table_map
from engine.report.charts.kinds import DASHES, heading, lines, looks_of
from engine.report.charts.lookup import trials_said
from engine.report.charts.panel import Choice, Panel, nothing, plain, wrapped
from engine.report.palette import Style, quiet
from engine.report.schema import group_or, hovers, readable
from engine.report.tracks import Measure, track_of
from engine.store.runs import Run, where
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.survival import (
    LOST,
    MATCHING,
    OF_GROUP,
    TICKET,
    UNJUDGED,
    WON,
    Reach,
    all_levels,
    arm_of,
    but_said,
    few_seeds,
    first_and_last,
    groups_of_axis,
    measure_of,
    reach_of,
    reaches,
    spread,
    task,
    ticket_levels,
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
SEVERAL = {WON: "winning tickets", MATCHING: "matching, but no winning tickets"}
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
    methods = [method for method in lookup.methods(run) if method in there]
    scores, room = Counter(arm_of(method)[1] for method in methods), _room(table)
    parts = tuple(_column(choice, methods, table, score, measure, room) for score in scores)
    legend = 10 * max(scores.values())  # two names in a row: each column leaves the same room
    for part in parts:
        part.update_layout(height=360 + legend, margin={"t": 44 + legend})
    answer, rest = _answer(run, choice, table, methods, measure)
    shown, note = _readable(table), _note(run, table)
    return Panel("tickets_curve", question, answer, None, shown, note, parts, more=rest)


def tickets_by_group(run: Run, choice: Choice) -> Panel:
    """The chosen arm group by group: accuracy minus the full model's."""
    axis = words.axis_name(choice.measured)
    question = f"For which groups of {axis} does the cut model keep up?"
    table = where(all_levels(run), axis=choice.measured, method=choice.method)
    order = groups_of_axis(run, choice.measured)
    table = pd.concat([table[:0], *(where(table, group=group) for group in order)])
    if table.empty:
        why = "No subgroup of this axis has levels of its own for this choice."
        return nothing("tickets_by_group", question, why)
    answer, mind = _groups_said(run, choice, table)
    figure, rest = _group_figure(choice, table), _here(run, choice, table)
    shown, note = _readable(table), _note(run, table)
    return Panel("tickets_by_group", question, answer, figure, shown, note, mind=mind, more=rest)


def _room(table: pd.DataFrame) -> tuple[float, float]:
    """What every column's y axis spans."""
    std, full = table["std"].fillna(0), table["full_std"].fillna(0)
    low = min((table["mean"] - std).min(), (table["full_mean"] - full).min())
    high = max((table["mean"] + std).max(), (table["full_mean"] + full).max())
    room = 0.07 * (high - low) or 0.01
    return float(low - room), float(high + room)


def _column(
    choice: Choice,
    methods: Sequence[str],
    table: pd.DataFrame,
    score: str,
    measure: Measure,
    room: tuple[float, float],
) -> go.Figure:
    """One score: a line per procedure; the full model's mean as a line, its deviation as a band."""
    looks = {name: _look(choice, name) for name in methods if arm_of(name)[1] == score}
    mine = table[table["method"].isin(looks)]
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


def _answer(
    run: Run, choice: Choice, table: pd.DataFrame, methods: Sequence[str], measure: Measure
) -> tuple[str, str]:
    """How far the chosen arm gets; then the full model, and the arm that gets furthest."""
    full = spread(table["full_mean"].iat[0], table["full_std"].iat[0], measure)
    parts = [f"The full model's {measure.name} is {full}."]
    if few := few_seeds(run):
        return few, parts[0]
    reach = {method: reach_of(where(table, method=method)) for method in methods}
    others = {method: one for method, one in reach.items() if method != choice.method}
    if others:
        parts.append(furthest_said(others, OTHER_ARMS))
    if choice.method == "dense":
        said = "the full model cuts nothing"
    elif choice.method in reach:
        levels = int((table["method"] == choice.method).sum())
        said = reach_said(reach[choice.method], words.method_name(choice.method), levels)
    else:
        said = f"{words.method_name(choice.method)} was not measured here"
    return f"{phrasing.sentence(said)}.", " ".join([*parts, *_easy_said(table)])


def furthest_said(reach: Mapping[str, Reach], whom: str) -> str:
    """Which arms get furthest, by kind of ticket, each with what must be said about it."""
    end = max(one.share for one in reach.values())
    if not end:
        unknown = all(one.state == UNJUDGED for one in reach.values())
        other = "any arm" if whom == ALL_ARMS else "any other method"
        if unknown:
            return f"These data do not tell whether {other} is a ticket."
        return f"{other.replace('any', 'No')} is a ticket at any level."
    parts = []
    for state in TICKET:
        named = [
            words.method_name(name) + (f" ({one.but})" if one.but else "")
            for name, one in reach.items()
            if one.share == end and one.state == state
        ]
        if named:
            kind = Reach(state=state).kind if len(named) == 1 else SEVERAL[state]
            parts.append(f"{phrasing.listing(named)}, {kind}")
    return f"Furthest {whom}, up to {phrasing.percent(end)} of heads cut: {'; '.join(parts)}."


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


def reach_said(reach: Reach, name: str, levels: int) -> str:
    """How far an arm gets on all texts or one group; `levels`: how many were measured."""
    if reach.state == UNJUDGED:
        return f"{name} may be a ticket: fewer than three of its seeds came to different models"
    if not reach.share:
        return f"{name} is no ticket at any " + (
            f"of {phrasing.count(levels, 'level')}" if levels else "level"
        )
    but = f", but {reach.but}" if reach.but else ""
    return f"{name} is {reach.kind} up to {phrasing.percent(reach.share)} of heads cut{but}"


def _note(run: Run, table: pd.DataFrame) -> str:
    n = phrasing.count(int(table["n"].max()), "test text")
    fixed = "" if table["full_std"].notna().any() else f" {FIXED}"
    return f"{n}, {trials_said(run)}. {own.WINNING} {EASY} {MARKS}{fixed}"


def _group_figure(choice: Choice, table: pd.DataFrame) -> go.Figure:
    """A line per group: mean minus the full model's mean, stars where it is a ticket for that
    group."""
    lost = (table["mean"] - table["full_mean"]).groupby(table["group"], sort=False).min()
    worst = set(lost.nsmallest(LONGEST).index)
    looks = looks_of(choice, [group for group in lost.index if group in worst])
    drawn = _drawn(table, OF_GROUP)
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


def _groups_said(run: Run, choice: Choice, table: pd.DataFrame) -> tuple[str, str]:
    """Which group loses it first; then what must be said about larger shares."""
    if few := few_seeds(run):
        return few, ""
    parts = table.groupby("group", sort=False)
    reach = {str(group): reach_of(part) for group, part in parts}
    name = words.method_name(choice.method)
    said, mind = lost_first(reach, choice, f"the ticket of {name}")
    if not said:
        whom = words.axis_name(choice.measured)
        return f"These data do not tell whether {name} is a ticket for any subgroup of {whom}.", ""
    return said, mind


def lost_first(
    every: Mapping[str, Reach], choice: Choice, it: str = "the ticket"
) -> tuple[str, str]:
    """Which subgroup loses the ticket first as more and more is cut, and what must be said about
    larger shares; "" where nothing can be judged of any."""
    reach = {group: one for group, one in every.items() if one.state != UNJUDGED}
    if not reach:
        return "", ""
    first, last = first_and_last(reach)
    least, most = reach[first[0]].unbroken, reach[last[0]].unbroken
    gone = "any level" if not any(one.share for one in reach.values()) else "the smallest share"
    if least == most:
        who = "Every" if least else "No"
        far = f"up to {phrasing.percent(least)}" if least else f"at {gone}"
        said = (
            f"{who} subgroup of {words.axis_name(choice.measured)}, judged alone, has {it} {far}."
        )
        return said, but_said(reach)
    far = f"one up to {phrasing.percent(least)} only" if least else "none at any level"
    if not least and any(reach[group].share for group in first):
        far = "none at the smallest share"
    firsts, lasts = (phrasing.listing(map(words.quoted, some)) for some in (first, last))
    lose, has = ("loses", "it has") if len(first) == 1 else ("lose", "they have")
    keep = "keeps" if len(last) == 1 else "keep"
    first_lost = f"{firsts} {lose} {it} first: judged alone, {has} {far}"
    return f"{first_lost}; {lasts} {keep} it up to {phrasing.percent(most)}.", but_said(reach)


def _here(run: Run, choice: Choice, table: pd.DataFrame) -> str:
    """The largest loss at the chosen level."""
    at = lookup.level_of(run, choice)
    here = table[at_level(table["sparsity"], at)].set_index("group")
    if here.empty:
        return ""
    lost = here["mean"] - here["full_mean"]
    value, group = OF_GROUP.signed(lost.min()), words.quoted(str(lost.idxmin()))
    return (
        f"At {phrasing.percent(at)} the lowest change is that of {group}: {value} {OF_GROUP.name}."
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
    question = f"How many heads can go, and which groups of {axis} lose first?"
    table = lookup.table(run, "tickets", "method")
    if table.empty:
        return nothing("tickets_table", question, ABSENT)
    mine = table[(table["group"] == "") | (table["axis"] == choice.measured)]
    reach = reaches(run, choice.measured)
    of = [reach[key] for key in zip(mine["method"], mine["group"], strict=True)]
    mine = mine.assign(state=[one.state for one in of], by_spread=[one.by_spread for one in of])
    known = set(mine["group"])
    groups = [group for group in groups_of_axis(run, choice.measured) if group in known]
    arms = [method for method in lookup.methods(run) if method in set(mine["method"])]
    drawn = track_of(run).methods.compared(arms, choice.method)
    figure = _table_figure(run, choice, mine, drawn, ["", *groups[:MOST_GROUPS]])
    hidden = len(groups) - MOST_GROUPS
    more = f" More subgroups in the table: {hidden}." if hidden > 0 else ""
    more += "" if len(drawn) == mine["method"].nunique() else OTHERS
    note = (
        f"{own.WINNING} {EASY} {trials_said(run)}. Stars: winning; without a star: matching only;"
        f" in brackets: only because its seeds differ widely; {DAGGER}: some smaller share is"
        f" none.{more}"
    )
    answer, rest, mind = _table_answer(run, choice, mine, reach, groups)
    titles = {"sparsity": "largest share", "unbroken": "unbroken up to"}
    shown = readable(mine, TICKET_COLUMNS, group=group_or(ALL), **titles)
    return Panel("tickets_table", question, answer, figure, shown, note, mind=mind, more=rest)


def _table_answer(
    run: Run, choice: Choice, table: pd.DataFrame, reach: Reaches, groups: list[str]
) -> tuple[str, str, str]:
    """The chosen arm: overall; then the group that loses it first; then what must be said about
    larger shares."""
    if few := few_seeds(run):
        return few, "", ""
    row = where(table, method=choice.method, group="")
    if row.empty:
        whole = {method: one for (method, group), one in reach.items() if not group}
        return furthest_said(whole, ALL_ARMS), "", ""
    mean, std, full_mean, full_std = row[["mean", "std", "full_mean", "full_std"]].iloc[0]
    name = words.method_name(choice.method)
    said = f"On all texts {reach_said(reach[choice.method, ''], name, 0)}"
    if math.isfinite(mean):
        measure = task(run)
        full = spread(full_mean, full_std, measure)
        said += f" ({measure.name} {spread(mean, std, measure)} against {full})"
    alone = {
        group: reach[choice.method, group] for group in groups if (choice.method, group) in reach
    }
    return f"{said}.", *lost_first(alone, choice)


def _table_figure(
    run: Run, choice: Choice, table: pd.DataFrame, order: list[str], groups: list[str]
) -> go.Figure:
    """Cells with the share written in them; colour: how much can go."""
    known = {(row["method"], row["group"]): row for row in table.to_dict("records")}
    keys = [[(method, group) for group in groups] for method in order]
    cells = [[_cell(run, key, known.get(key)) for key in row] for row in keys]
    values = [[known[key]["sparsity"] if key in known else 0.0 for key in row] for row in keys]
    names = [wrapped(words.method_name(method), 18) for method in order]
    if choice.method in order:
        place = order.index(choice.method)
        names[place] = f"<b>{names[place]}</b>"
    across = [wrapped(group_or(ALL)(group), 12) for group in groups]
    figure = table_map(choice, np.nan_to_num(np.array(values, float)), names, across, cells)
    figure.update_layout(margin={"t": 44})
    return figure


def _cell(run: Run, key: tuple[str, str], row: Values | None) -> tuple[str, str]:
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
        "only because its seeds differ widely" if row["by_spread"] else "",
    ]
    share, said = f"{share}{DAGGER if broken else ''}", "<br>".join(filter(None, lines))
    star = STAR if won else ""
    if row["by_spread"]:
        star, share = (f"({STAR})", share) if won else ("", f"({share})")
    return "<br>".join(filter(None, (star, share))), said


# Which groups' texts are mistaken: subgroup, BPSN and BNSP AUC per group (Borkan et al. 2019),
# before and after.


METRICS = ("auc", "bpsn_auc", "bnsp_auc")
KEY = "borkan_aucs"


def has_borkan(run: Run, choice: Choice) -> bool:
    """Whether the axis has them: it needs two classes and groups that are no classes."""
    return not lookup.groups_of(run, "dense", METRICS[1], choice.measured).empty


def borkan(run: Run, choice: Choice) -> Panel:
    """Three columns: within the group, its negatives against others' positives, and the other way
    round."""
    axis = words.axis_name(choice.measured)
    question = (
        f"Are texts of some subgroup of {axis} mistaken for the other class, before and after the"
        " cut?"
    )
    if not has_borkan(run, choice):
        why = "That takes two classes and an axis whose subgroups are not the classes themselves."
        return nothing(KEY, question, why)
    found = _in_one_order(run, choice)
    parts = tuple(_groups_column(run, choice, metric, table) for metric, table in found.items())
    table = pd.concat(
        [shown(run, part).assign(measure=_name(metric)) for metric, part in found.items()]
    )
    positive = run.data["classes"][1]
    note = lookup.caveat(run, None, more=f"Positive: {words.quoted(positive)}. {_definitions()}")
    answer, more = _groups_answer(run, choice)
    return Panel(KEY, question, answer, None, table, note, parts, more=more)


def _in_one_order(run: Run, choice: Choice) -> dict[str, pd.DataFrame]:
    """The table of every metric, the subgroup with the lowest AUC of its own on top in all of
    them."""
    found = {metric: pairs(run, choice, _measure(metric)) for metric in METRICS}
    order = found["auc"]["group"].tolist()
    known = dict(zip(order, range(len(order)), strict=True))
    return {
        metric: table.sort_values(
            "group",
            key=lambda groups: groups.map(known).fillna(len(order)),
            ignore_index=True,
            kind="stable",
        )
        for metric, table in found.items()
    }


def _groups_column(run: Run, choice: Choice, metric: str, table: pd.DataFrame) -> go.Figure:
    """A column says in its title what it shows."""
    figure = dumbbell(run, choice, ByGroup(_measure(metric), _name(metric)), table)
    heading(figure, _name(metric))
    figure.update_layout(legend={"y": 1.12}, margin={"t": 30})
    return figure


def _measure(metric: str) -> Measure:
    return Measure(metric, few="texts")


def _name(metric: str) -> str:
    return "subgroup AUC" if metric == "auc" else words.metric_name(metric)


def _definitions() -> str:
    known = words.gathered("METRICS")
    return " ".join(f"{known[metric].name}: {known[metric].definition}" for metric in METRICS[1:])


def _groups_answer(run: Run, choice: Choice) -> tuple[str, str]:
    """The lowest of the two that compare a subgroup with the rest, and what the cut did to it."""
    tables = [pairs(run, choice, _measure(name)).assign(metric=name) for name in METRICS[1:]]
    table = pd.concat(tables)
    table = table[(table["verdict"] == "") & table["value_dense"].notna()]
    rows = table.to_dict("records")
    if not rows:
        return "No subgroup has enough texts of both classes.", ""
    low = min(rows, key=lambda row: row["value_dense"])
    measure = _measure(low["metric"])
    where = f"{measure.name} of {words.quoted(low['group'])}, {measure.number(low['value_dense'])}"
    pairs_said = f"{phrasing.sentence(_as_pairs(low, run))}."
    if lookup.variant_of(run, choice)["variant"] == "dense":
        return f"Uncut, the lowest is the {where}.", pairs_said
    lost = phrasing.clear(rows, "fell")
    if not lost:
        kept = "the cut does not clearly lower it for any subgroup"
        return f"Uncut, the lowest is the {where}; {kept}.", pairs_said
    most = min(lost, key=lambda row: row["delta"])
    name, whose = _measure(most["metric"]), words.quoted(most["group"])
    wrong = f"{_wrong(most['metric'], run)} more often"
    return (
        f"The cut costs most in the {name.name} of {whose} ({name.change(most)}): {wrong}.",
        f"Uncut, the lowest is the {where}. {pairs_said}",
    )


def _sides(metric: str, run: Run) -> tuple[str, str, str, str]:
    """Its own class, where that is rightly ranked, the other's class, and where it is wrongly."""
    negative, positive = map(words.quoted, run.data["classes"])
    if metric == "bpsn_auc":
        return negative, "below", positive, "above"
    return positive, "above", negative, "below"


def _as_pairs(row: Values, run: Run) -> str:
    """What an AUC counts: pairs of texts in the right order."""
    inside, way, other, _ = _sides(row["metric"], run)
    share = phrasing.percent(round(float(row["value_dense"]), 3))
    return (
        f"in {share} of pairs its {inside} text is rightly ranked {way} another subgroup's"
        f" {other} one"
    )


def _wrong(metric: str, run: Run) -> str:
    """What happens more often where an AUC falls."""
    inside, _, other, wrongly = _sides(metric, run)
    return f"its {inside} texts are ranked {wrongly} others' {other} ones"

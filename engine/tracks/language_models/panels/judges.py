"""Do other judges see the same change, and what do they say of the groups' names alone?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import dots, looks_of
from engine.report.charts.panel import Choice, Panel, nothing, plain
from engine.report.schema import hovers, readable
from engine.store.runs import Run
from engine.store.tables import where
from engine.tracks.language_models import words as own

KEY = "judges"
NAMES = "judged_names"
_DELTA = ("delta", "delta_low", "delta_high")
_CLEAR = ("fell", "rose")
_VERBS = {
    "fell": "fall",
    "rose": "rise",
    "unclear": "not clearly change",
    "unknown": "move by an unknown amount",
}


def opinions(run: Run, choice: Choice) -> pd.DataFrame:
    """Bias of the chosen variant by every judge on every axis, the audit's own judge first: judge,
    axis, dense, value, delta with ends. Empty where only one judge read the texts."""
    if not run.has("opinions"):
        return pd.DataFrame()
    metric, variant = f"bias:{choice.reading}", lookup.variant_of(run, choice)["variant"]
    table = lookup.frame(run, "opinions")
    rows = []
    for axis in run.meta["request"]["axes"]:
        there = (lookup.result(run, name, metric, axis) for name in (variant, "dense"))
        found = {run.meta["judge"]["name"]: tuple(there)}
        mine = where(table, axis=axis, metric=metric)
        for judge, part in mine.groupby("judge", sort=True):
            by = part.set_index("variant").to_dict("index")
            found[str(judge)] = (by.get(variant), by.get("dense"))
        if len(found) > 1:
            rows += [
                {"judge": judge, "axis": axis, **_row(cut, dense)}
                for judge, (cut, dense) in found.items()
                if cut is not None and dense is not None
            ]
    return pd.DataFrame(rows)


def _row(cut: Mapping[str, Any], dense: Mapping[str, Any]) -> dict[str, Any]:
    levels = {"dense": dense["value"], "value": cut["value"]}
    return {**levels, **{name: cut[name] for name in _DELTA}, "seen": phrasing.direction(cut)}


def judges(run: Run, choice: Choice) -> Panel:
    """The change of bias by every judge, each as a share of the bias that this judge sees in the
    uncut model."""
    question = "Do other judges see the same change?"
    table = opinions(run, choice)
    if lookup.variant_of(run, choice)["variant"] == "dense":
        return nothing(KEY, question, "Nothing is cut here: choose a level above zero.")
    if table.empty:
        return nothing(KEY, question, own.ONE_JUDGE)
    share = table.assign(**{name: 100 * table[name] / table["dense"] for name in _DELTA})
    note = f"{lookup.variant_label(run, lookup.variant_of(run, choice))}. {own.JUDGES_SAID}"
    title = "change of bias, % of the uncut model's"
    columns = "judge axis dense value delta delta_low delta_high seen"
    shown = readable(table, columns, dense="bias, uncut", value="bias, cut")
    return Panel(
        KEY, question, _answer(table), _figure(choice, share, "delta", "axis", title), shown, note
    )


def disagreement(run: Run, choice: Choice, variant: Mapping[str, Any]) -> str:
    """What must be said beside the measured axis' change where another judge sees another sign, or
    none; "" where all see the same."""
    if variant["variant"] == "dense":
        return ""
    table = opinions(run, choice)
    table = table[table["axis"] == choice.measured] if len(table) else table
    if len(table) < 2 or table["seen"].nunique() == 1:
        return ""
    said = [
        f"{row.judge} sees it {_VERBS[row.seen]} ({phrasing.change(row._asdict())})"
        for row in table.itertuples()
    ]
    opposed = set(_CLEAR) <= set(table["seen"])
    first = "Judges disagree" if opposed else "The judges do not all see the same"
    return f"{first}: {'; '.join(said)}."


def _answer(table: pd.DataFrame) -> str:
    """On how many axes all judges see the same direction, on how many none sees one, and on which
    they differ."""
    seen = table.groupby("axis", sort=False)["seen"].agg(lambda found: list(dict.fromkeys(found)))
    same = [axis for axis, found in seen.items() if len(found) == 1 and found[0] in _CLEAR]
    none = [axis for axis, found in seen.items() if not set(found) & set(_CLEAR)]
    many = phrasing.count(table["judge"].nunique(), "judge")
    said = [
        f"{many} agree on the direction on {len(same)} of"
        f" {phrasing.count(len(seen), 'axis', 'axes')}"
    ]
    if none:
        names = ", ".join(words.axis_name(str(axis)) for axis in none)
        said.append(f"no judge sees a clear change on {names}")
    apart = [
        f"{words.axis_name(str(axis))} ({_who(table[table['axis'] == axis])})"
        for axis in seen.index
        if axis not in (*same, *none)
    ]
    said += [f"not on {', '.join(apart)}"] if apart else []
    return f"{'; '.join(said)}."


def _who(rows: pd.DataFrame) -> str:
    return ", ".join(f"{row.judge}: {_VERBS[row.seen]}" for row in rows.itertuples())


def _figure(choice: Choice, table: pd.DataFrame, value: str, row: str, title: str) -> go.Figure:
    """A row per axis or group, a dot per judge."""
    said = hovers(table, f"judge {row} {value}", judge=str, **{value: title})
    named = words.axis_name if row == "axis" else str
    return dots(
        choice,
        table.assign(hover=said),
        value,
        {one: plain(named(one)) for one in table[row]},
        looks_of(choice, list(dict.fromkeys(table["judge"]))),
        title,
        row=row,
        by="judge",
        named=plain,
        zero=value == "delta",
    )


def judged_names(run: Run, choice: Choice) -> Panel:
    """What every judge says of the prompts alone, group by group, on the measured axis."""
    question = (
        f"What does each judge say of the words for {words.axis_name(choice.measured)} alone?"
    )
    table = lookup.frame(run, "opinion_groups") if run.has("opinion_groups") else pd.DataFrame()
    if len(table):
        table = where(table, variant=own.PROMPTS_ALONE, axis=choice.measured)
    if table.empty:
        return nothing(NAMES, question, own.ONE_JUDGE)
    # each judge that was asked later brought the audit's own again
    table = table.drop_duplicates(["judge", "group"])
    other = table["judge"] != run.meta["judge"]["name"]
    table = table.assign(other=other).sort_values("other", kind="stable")
    shown = table[["judge", "group", "value", "low", "high", "n"]].reset_index(drop=True)
    title = "mean verdict on the prompts alone, 0 to 1"
    figure = _figure(choice, shown, "value", "group", title)
    return Panel(NAMES, question, _names_answer(table), figure, shown, own.NAMES_SAID)


def _names_answer(table: pd.DataFrame) -> str:
    """By every judge, the group with the highest and with the lowest verdict, and whether their
    intervals part."""
    said = []
    for judge, mine in table.groupby("judge", sort=False):
        low, high = mine.loc[mine["value"].idxmin()], mine.loc[mine["value"].idxmax()]
        parted = math.isfinite(high["low"]) and high["low"] > low["high"]
        ends = ", ".join(f"{end['group']} {phrasing.number(end['value'])}" for end in (high, low))
        said.append(
            f"{judge}: from {ends}" if parted else f"{judge}: no two groups clearly apart ({ends})"
        )
    return f"{'; '.join(said)}."

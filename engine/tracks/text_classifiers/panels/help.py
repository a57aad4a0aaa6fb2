"""Does the score help? The paired difference between arms that differ in nothing but what picks the
heads."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.core.ids import at_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import trials_said
from engine.report.charts.columns import DIFFERENCE, Column, group_or, readable, titled
from engine.report.charts.differences import (
    BY_CHANCE,
    MAX_Q,
    add_differences,
    around_zero,
    as_change,
    direction,
    q_said,
)
from engine.report.charts.marks import beside, row_names
from engine.report.charts.panel import Choice, Panel, nothing, plain, wrapped
from engine.report.contract import Measure
from engine.report.palette import series_styles
from engine.store.runs import Run
from engine.tracks.text_classifiers import words as own
from engine.tracks.text_classifiers.panels.lookup import arm_of, groups_of_axis, task

RANDOM = "random"
LONGEST = 6
"""Groups drawn at most."""
COLUMNS = (
    Column("base", "procedure", own.procedure_name),
    Column("score", "score", own.importance_name),
    Column("other", "against", own.importance_name),
    *titled(sparsity="share asked"),
    Column("group", "subgroup", group_or("all texts")),
    Column("metric", "metric", words.metric_name),
    *DIFFERENCE,
    *titled(p="p", q="q", n="texts", n_trials="seeds"),
)


def score_difference(run: Run, choice: Choice) -> Panel:
    """The chosen score minus every other it was compared with, same procedure: all texts and every
    group."""
    procedure, score = _asked(run, choice)
    at = phrasing.percent(lookup.level_of(run, choice))
    table = differences(run, choice, procedure, score)
    name, arm = own.importance_name(score), own.procedure_name(procedure)
    others = (
        [own.importance_name(str(other)) for other in dict.fromkeys(table["other"])]
        if len(table)
        else []
    )
    question = f"Does {name} choose better heads than {_or(others)}?"
    if table.empty:
        why = f"This audit does not compare {arm} by {name} and by another score at {at}."
        return nothing("score_difference", question, why)
    n = phrasing.count(int(table["n"].max()), "test text")
    note = (
        f"Difference of {_measure(table.iloc[0].to_dict()).name}: {name} minus the other score,"
        f" {arm} at {at}, same texts, {n}, {trials_said(run)} each. {own.INTERVALS_TEXTS} Several"
        " intervals are read at once: only differences with q (false discovery rate) of at most"
        f" {MAX_Q:g} are claimed."
    )
    (answer, rest), figure = _answer(run, choice, table, procedure, score), _figure(choice, table)
    return Panel(
        "score_difference", question, answer, figure, readable(table, COLUMNS), note, more=rest
    )


def _asked(run: Run, choice: Choice) -> tuple[str, str]:
    """Procedure and score of the choice; where random choice was chosen, the score that it is a
    control for."""
    procedure, score = arm_of(choice.method)
    if run.has("arm_differences") and (score in (RANDOM, "") or choice.method == "dense"):
        rows = lookup.frame(run, "arm_differences")
        known = rows[rows["base"] == procedure] if (rows["base"] == procedure).any() else rows
        if len(known):
            ordered = [name for name in own.IMPORTANCE if name in set(known["score"])] or list(
                known["score"]
            )
            return (
                procedure if (rows["base"] == procedure).any() else str(known["base"].iloc[0])
            ), ordered[0]
    return procedure, score


def _or(others: list[str]) -> str:
    """ "random choice, magnitude or Michel"."""
    return (
        " or ".join(filter(None, [", ".join(others[:-1]), others[-1]]))
        if others
        else "random choice"
    )


def differences(run: Run, choice: Choice, procedure: str, score: str) -> pd.DataFrame:
    """Rows of arm_differences at the chosen level: the task's metric on all texts, accuracy of the
    axis' groups."""
    if not run.has("arm_differences"):
        return pd.DataFrame()
    table, metric = lookup.frame(run, "arm_differences"), task(run).metric
    rows = table[(table["base"] == procedure) & (table["score"] == score)]
    rows = rows[at_level(rows["sparsity"], lookup.level_of(run, choice))]
    whole = rows[(rows["axis"] == "") & (rows["metric"] == metric)]
    if whole.empty:
        whole = rows[(rows["axis"] == "") & (rows["metric"] == "accuracy")]
    groups = groups_of_axis(run, choice.measured)
    mine = rows[
        (rows["axis"] == choice.measured)
        & (rows["metric"] == "accuracy")
        & rows["group"].isin(groups)
    ]
    found = pd.concat([whole, mine], ignore_index=True)
    order = {group: place for place, group in enumerate(["", *groups])}
    others = [RANDOM, *own.IMPORTANCE]
    place = found["other"].map(
        lambda other: others.index(other) if other in others else len(others)
    )
    found = found.round(
        {"value": 9, "low": 9, "high": 9}
    )  # means of equal numbers differ in their last digits
    return found.assign(_group=found["group"].map(order), _other=place).sort_values(
        ["_other", "_group"], ignore_index=True
    )


def _measure(row: dict[str, Any]) -> Measure:
    return Measure(row["metric"], few="texts")


def _answer(
    run: Run, choice: Choice, table: pd.DataFrame, procedure: str, score: str
) -> tuple[str, str]:
    """The difference on all texts from the first other score; then the subgroups for which it helps
    or harms, and the rest."""
    parts: list[str] = []
    name, arm = own.importance_name(score), own.procedure_name(procedure)
    for other, rows in table.groupby("other", sort=False):
        whole = rows[rows["group"] == ""]
        if len(whole):
            said = _said(whole.iloc[0].to_dict(), name, own.importance_name(str(other)))
            parts.append(phrasing.sentence(said) if parts else said)
        parts.append(_groups_said(rows[rows["group"] != ""]))
    start = f"{arm} at {phrasing.percent(lookup.level_of(run, choice))}: "
    told = [part for part in parts if part]
    return phrasing.sentence(start + "".join(told[:1])), " ".join(told[1:])


def _said(row: dict[str, Any], name: str, other: str) -> str:
    change, kind = _measure(row).change(as_change(row)), direction(row)
    verdict = {
        "rose": f"{name} chooses better than {other}",
        "fell": f"{name} chooses worse than {other}",
        "unclear": f"{name} and {other} cannot be told apart",
        BY_CHANCE: f"{name} and {other} cannot be told apart once all comparisons are counted",
    }.get(kind, f"whether {name} helps against {other} was not measured")
    q = f"; {q_said(row)}" if kind == BY_CHANCE and math.isfinite(row["q"]) else ""
    return f"{verdict} ({_measure(row).name} {change}{q})."


def _groups_said(table: pd.DataFrame) -> str:
    kinds: dict[str, list[str]] = {}
    for row in table.to_dict("records"):
        kinds.setdefault(direction(row), []).append(words.quoted(row["group"]))
    parts = [
        f"it {verb} {phrasing.listing(kinds[kind])}"
        for kind, verb in (("rose", "helps"), ("fell", "harms"))
        if kind in kinds
    ]
    text = f"Of the subgroups {' and '.join(parts)}." if parts else ""
    text = "No subgroup alone shows a clear difference." if kinds and not parts else text
    if by_chance := kinds.get(BY_CHANCE):
        text += (
            f" The interval of {phrasing.listing(by_chance)} alone leaves out zero, which so many"
            " comparisons can "
        )
        text += f"give by chance (q above {MAX_Q:g})."
    return text


def _figure(choice: Choice, table: pd.DataFrame) -> go.Figure:
    """A row per group, a point per other score."""
    groups, others = (
        list(dict.fromkeys(table["group"]))[: LONGEST + 1],
        list(dict.fromkeys(table["other"])),
    )
    height = 110 + max(44, 22 * len(others) + 16) * len(groups)
    figure = around_zero(
        choice, height, "difference; right of zero: chosen better", choice.theme.ink
    )
    for other, style, shift in zip(
        others, series_styles(choice.dark), beside(len(others), 0.24), strict=False
    ):
        rows = table[(table["other"] == other) & table["group"].isin(groups)]
        y = [groups.index(group) + shift for group in rows["group"]]
        name = f"against {own.importance_name(other)}"
        add_differences(
            figure, rows, y, style, _hovers(rows), thickness=1.8, name=name, showlegend=True
        )
    row_names(
        figure,
        ["<b>all texts</b>" if not group else wrapped(words.group_name(group)) for group in groups],
    )
    return figure


def _hovers(table: pd.DataFrame) -> list[str]:
    found = []
    for row in table.to_dict("records"):
        whom, measure = plain(group_or("all texts")(row["group"])), _measure(row)
        head = f"<b>{whom}</b>, against {own.importance_name(row['other'])}"
        found.append(
            "<br>".join(
                filter(
                    None, [head, f"{measure.name} {measure.change(as_change(row))}", q_said(row)]
                )
            )
        )
    return found

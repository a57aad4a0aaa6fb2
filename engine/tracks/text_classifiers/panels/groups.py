"""Which groups' texts are mistaken: subgroup, BPSN and BNSP AUC per group (Borkan et al. 2019),
before and after."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.by_group import ByGroup, dumbbell, pairs, shown
from engine.report.charts.marks import heading
from engine.report.charts.panel import Choice, Panel, nothing
from engine.report.contract import Measure
from engine.store.runs import Run

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
    parts = tuple(_column(run, choice, metric, table) for metric, table in found.items())
    table = pd.concat(
        [shown(run, part).assign(measure=_name(metric)) for metric, part in found.items()]
    )
    positive = run.meta["data"]["classes"][1]
    note = lookup.caveat(run, None, more=f"Positive: {words.quoted(positive)}. {_definitions()}")
    answer, more = _answer(run, choice)
    return Panel(KEY, question, answer, None, table, note, parts, more=more)


def _in_one_order(run: Run, choice: Choice) -> dict[str, pd.DataFrame]:
    """The table of every metric, the subgroup with the lowest AUC of its own on top in all of
    them."""
    found = {metric: pairs(run, choice, _measure(metric)) for metric in METRICS}
    order = found["auc"]["group"].tolist()
    known = dict(zip(order, range(len(order)), strict=True))
    return {
        metric: table.sort_values(
            "group", key=lambda groups: groups.map(known).fillna(len(order)), ignore_index=True
        )
        for metric, table in found.items()
    }


def _column(run: Run, choice: Choice, metric: str, table: pd.DataFrame) -> go.Figure:
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


def _answer(run: Run, choice: Choice) -> tuple[str, str]:
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
    lost = [row for row in rows if phrasing.direction(row, len(rows)) == "fell"]
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
    negative, positive = map(words.quoted, run.meta["data"]["classes"])
    if metric == "bpsn_auc":
        return negative, "below", positive, "above"
    return positive, "above", negative, "below"


def _as_pairs(row: dict[str, Any], run: Run) -> str:
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

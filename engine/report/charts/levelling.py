"""If the gap shrank: did the worst-off subgroup gain, or did the best-off lose? For any track."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.kinds import dots
from engine.report.charts.panel import Choice, Panel, nothing, plain, wrapped
from engine.report.contract import Measure
from engine.report.schema import readable
from engine.report.tracks import track_of
from engine.store.runs import Run

QUESTION = "If the gap shrank: did the worst-off subgroup gain, or did the best-off lose?"
_LEVELLED = "Levelling down: the gap shrank only because the best-off subgroup got worse"
COLUMNS = "what before value delta delta_low delta_high n"


def levelling_down(run: Run, choice: Choice) -> Panel:
    """Change of the dense model's worst and best subgroup, and of the gap between worst and
    best."""
    variant = lookup.variant_of(run, choice)
    if variant["variant"] == "dense":
        return nothing("levelling_down", QUESTION, "Nothing is cut here, so nothing changed.")
    rows = _extremes(run, choice, variant["variant"])
    if not rows:
        return nothing(
            "levelling_down", QUESTION, "This run has no worst and best subgroup for this choice."
        )
    table = pd.DataFrame(rows)
    table = table.assign(before=table["value"] - table["delta"])
    more = (
        f"The worst-off and best-off groups are those of the {track_of(run).whole}, so part of a "
        "change towards the middle is "
    )
    counted = lookup.measured(run, variant["variant"], lookup.reading(run, choice).gap, choice)
    note = lookup.caveat(
        run, counted, more=f"{more}chance."
    )  # n of the ends may count something else
    figure = _changes(run, choice, variant, table)
    verdict, facts = _told(run, choice)
    answer, more = f"{verdict}.", f"{phrasing.sentence(facts)}." if facts else ""
    return Panel(
        "levelling_down",
        QUESTION,
        answer,
        figure,
        readable(table, COLUMNS, value="after"),
        note,
        more=more,
    )


def _told(run: Run, choice: Choice) -> tuple[str, str]:
    """The verdict, and what both ends did."""
    variant, reading = lookup.variant_of(run, choice), lookup.reading(run, choice)
    rows = {row["metric"]: row for row in _extremes(run, choice, variant["variant"])}
    if not {reading.worst.metric, reading.best.metric, reading.gap.metric} <= set(rows):
        return "Worst-off and best-off subgroup were not both measured", ""
    worst, best, gap = (rows[one.metric] for one in (reading.worst, reading.best, reading.gap))
    gains, hurt = (
        phrasing.direction(worst) == way for way in (reading.worst.better, reading.worst.worse)
    )
    loses = phrasing.direction(best) == reading.best.worse
    facts = (
        f"the worst-off subgroup ({words.quoted(worst['group'])}): {reading.worst.change(worst)}; "
        f"the best-off ({words.quoted(best['group'])}): {reading.best.change(best)}"
    )
    kind = phrasing.direction(gap)
    if hurt and loses:
        return "Both ends got worse", facts
    if kind == "fell" and loses:
        start = "Partly levelling down: the gap shrank from both ends" if gains else _LEVELLED
    elif kind == "fell":
        gained = "because the worst-off subgroup gained; the best-off did not clearly lose"
        start = (
            f"The gap shrank {gained}"
            if gains
            else "The gap shrank, but neither end clearly changed"
        )
    elif kind == "rose":
        start = "The gap grew"
    else:
        start = "The worst-off subgroup got worse" if hurt else "The gap did not clearly change"
    return start, facts


def _extremes(run: Run, choice: Choice, variant: str) -> list[dict[str, Any]]:
    """Result rows for worst-off, best-off and gap, with `what` and the name of the `group`."""
    rows, reading = [], lookup.reading(run, choice)
    for measure in (reading.worst, reading.best, reading.gap):
        row = lookup.measured(run, variant, measure, choice)
        if row is None or not math.isfinite(row["value"]):
            continue
        group = end_named(run, choice, measure, row)
        what = measure.word.name + (f": {group}" if group else " between worst and best")
        rows.append({**row, "group": group, "what": what, "measure": measure})
    return rows


def end_named(run: Run, choice: Choice, measure: Measure, row: Mapping[str, Any]) -> str:
    """Which subgroup the dense model's worst or best is: the one the row names, or whose value is
    the reported one.

    "" for a measure that is of neither end.
    """
    if measure.metric not in (
        lookup.reading(run, choice).worst.metric,
        lookup.reading(run, choice).best.metric,
    ):
        return ""
    if measure.names_group and row.get("group"):
        return words.group_name(str(row["group"]))
    dense = lookup.measured(run, "dense", measure, choice)
    here = lookup.groups_of(run, "dense", lookup.reading(run, choice).group.metric, choice.measured)
    if dense is None or here.empty:
        return ""
    nearest = (here["value"] - dense["value"]).abs()
    return words.group_name(here.loc[nearest.idxmin(), "group"]) if nearest.min() < 1e-6 else ""


def _changes(run: Run, choice: Choice, variant: dict[str, Any], table: pd.DataFrame) -> go.Figure:
    records, method = table.to_dict("records"), variant["method"]
    said = [
        f"<b>{plain(row['what'])}</b><br>change {row['measure'].change(row)}" for row in records
    ]
    figure = dots(
        choice,
        table.assign(method=method, hover=said),
        "delta",
        {what: wrapped(what, 18) for what in table["what"]},
        {method: track_of(run).style(method, choice.dark)},
        f"change of {lookup.reading(run, choice).group.name}",
        row="what",
    )
    for place, row in enumerate(records):
        text, where = row["measure"].signed(row["delta"]), {"x": row["delta"], "y": place}
        figure.add_annotation(**where, text=text, showarrow=False, yshift=16)
    return figure

"""The plain words in which audits of classifiers are told; a track adds what was done, and what it
knows of groups."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from engine.core import words
from engine.report import in_words, phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import CLASS_AXIS, repeats
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.store.tables import where

CHANCE = "the mix of classes and chance alone"


def groups(run: Run, axis: str, invented: Mapping[str, Mapping[str, str]]) -> str:
    """The groups of an axis; invented: what is known of groups of the project's own data, by data
    and axis.

    A run of data that only bears such a name has no `stand_in`: nothing is said to be invented
    there.
    """
    data = run.meta["data"]
    count = in_words.counted(len(_names(run, axis)))
    if axis == CLASS_AXIS:
        return f"{count} classes of {data['name']}"
    known = invented.get(data["name"], {}).get(axis, "") if data.get("stand_in") else ""
    return (
        f"{count} {known}"
        if known
        else f"{count} groups of {words.axis_name(axis)} in {data['name']}"
    )


def harm(run: Run, choice: Choice) -> str:
    """The gap that is read, between the two groups by name or among more of them."""
    reading, names = lookup.reading(run, choice), _names(run, choice.measured)
    among = f"among the {in_words.counted(len(names))} groups of {words.axis_name(choice.measured)}"
    if choice.measured == CLASS_AXIS:
        among = "among the classes"
    elif len(names) == 2:
        among = f"between {words.quoted(names[0])} and {words.quoted(names[1])}"
    return f"the {reading.harm.name} {among}"


def unlearned(run: Run) -> str:
    """AUC of a guess is one half, whatever the mix of classes is."""
    row = lookup.result(run, "dense", "auc")
    if row is None or not math.isfinite(row["value"]):
        return ""
    if (row["low"] if math.isfinite(row["low"]) else row["value"]) > 0.5:
        return ""
    return (
        f"The {track_of(run).whole} could be guessing (AUC {in_words.short(row['value'])}): no "
        "verdict is given on any cut of it."
    )


def more(run: Run, choice: Choice, variant: Mapping[str, Any]) -> str:
    """What must be read with any verdict: models that answer one class only, a level that was not
    reached, what intervals or gaps are of."""
    if variant["variant"] == "dense":
        return ""
    found = (degenerate_said(run, variant), missed_said(run, variant), _of(run, choice, variant))
    return " ".join(filter(None, found))


def _of(run: Run, choice: Choice, variant: Mapping[str, Any]) -> str:
    """That one model's intervals are about its items alone; of several, which gap is told."""
    track, reading = track_of(run), lookup.reading(run, choice)
    if words.is_by_hand(str(variant["method"])) or lookup.is_predicted(variant):
        return ""
    if (models := repeats(run)) < 2:
        return (
            f"It is one {track.repeat}: intervals are about its {track.items} only, and another"
            f" {track.repeat} may differ."
        )
    if not reading.harm.metric.endswith("_gap") or int(variant.get("seed", -1)) >= 0:
        return ""
    metric = reading.group.metric
    change = "" if reading.harm.metric == f"{metric}_gap" else "changes of "
    what = f"{change}{words.metric_name(metric)}"
    return f"The gap is that of mean {what} over {phrasing.count(models, track.repeat)}."


def degenerate_said(run: Run, variant: Mapping[str, Any]) -> str:
    """How many trials say nothing about what was cut."""
    wrong, trials = int(variant["degenerate"]), repeats(run)
    if not wrong:
        return ""
    repeat = track_of(run).repeat
    of = f"{wrong} of {phrasing.count(trials, repeat)}" if variant["seed"] < 0 else f"This {repeat}"
    ends = "ends" if wrong == 1 else "end"
    return (
        f"{of} {ends} with a model that predicts one class for every {track_of(run).item}. It is "
        "marked in the charts and counts in the means here."
    )


def missed_said(run: Run, variant: Mapping[str, Any]) -> str:
    """That the level asked for was not reached; "" where it was."""
    if bool(variant.get("met", True)):
        return ""
    track = track_of(run)
    level = track.level
    return (
        f"The target of {level.say(variant[level.column])} was not met exactly: the model's"
        f" {track.many} are too coarse. Reached: {level.say(variant[level.realised])}."
    )


def _names(run: Run, axis: str) -> list[str]:
    """Groups of the axis that were measured, in the order of the table."""
    table = lookup.frame(run, "groups")
    rows = where(table, variant="dense", axis=axis, split=lookup.REPORTED)
    return list(dict.fromkeys(rows["group"]))

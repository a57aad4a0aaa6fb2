"""The overview's sentence for a cut classifier: which subgroup paid, and what became of the gap."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.classifier_lookup import paid_most, repeats
from engine.report.charts.headline import LEVELLING, inside_null_now
from engine.report.charts.levelling import levelling_verdict
from engine.report.charts.panel import Choice
from engine.report.contract import Reading
from engine.report.tracks import track_of
from engine.store.runs import Run


def sentence(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    """Who paid most, with the change, then the gap before and after."""
    reading, axis = lookup.reading(run, choice), words.axis_name(choice.measured)
    rows = lookup.groups_of(run, variant["variant"], reading.group.metric, choice.measured)
    enough = rows[(rows["verdict"] == "") & rows["value"].notna()]
    if variant["variant"] == "dense":
        return _dense_sentence(run, choice, reading, axis, enough)
    return f"{who_paid(run, choice, variant)}{_gap_words(run, choice, reading, axis, variant)}"


def who_paid(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    """Who paid most, with the change, as a sentence."""
    reading, axis = lookup.reading(run, choice), words.axis_name(choice.measured)
    rows = lookup.groups_of(run, variant["variant"], reading.group.metric, choice.measured)
    how = (
        "chosen by hand"
        if words.is_by_hand(variant["method"])
        else f"with {words.method_name(variant['method'])}"
    )
    start = f"Cutting {lookup.amount(run, variant)} {how}"
    paid = paid_most(rows[(rows["verdict"] == "") & rows["value"].notna()])
    if paid is None:
        return f"{start}: no subgroup of {axis} can be judged."
    doubt = paid.doubt(reading.group)
    return f"{start} {_paid(reading, axis, paid.most)}{f', though {doubt}' if doubt else ''}."


def _paid(reading: Reading, axis: str, most: dict[str, Any]) -> str:
    """What happened to the subgroup that paid most."""
    what, name = reading.group.name, words.quoted(most["group"])
    before, after = (
        reading.group.number(value) for value in (most["value"] - most["delta"], most["value"])
    )
    levels = f"from {before} to {after} (change {reading.group.change(most)})"
    kind = phrasing.direction(most)
    if kind == "fell":
        return f"costs {name} most: its {what} falls {levels}"
    if kind == "rose":
        return f"lowers the {what} of no subgroup of {axis}: even for {name} it rises {levels}"
    return (
        f"leaves no subgroup of {axis} clearly worse off; the lowest change of {what} is that "
        f"of {name}, {levels}"
    )


def _gap_words(
    run: Run, choice: Choice, reading: Reading, axis: str, variant: dict[str, Any]
) -> str:
    row = lookup.harm(run, variant["variant"], choice)
    if row is None or not math.isfinite(row["value"]):
        return f" The {reading.harm.name} of {axis} was not measured."
    verbs = {
        "fell": "shrinks",
        "rose": "grows",
        "unclear": "does not clearly change",
        "unknown": "moves",
    }
    kind, change = phrasing.direction(row), reading.harm.change(row)
    before, after = (
        reading.harm.number(value) for value in (row["value"] - row["delta"], row["value"])
    )
    clear = f"from {before} to {after} (change {change})"
    levels = (
        clear if kind in ("fell", "rose") else f"({before} before, {after} after; change {change})"
    )
    text = f" The {reading.harm.name} of {axis} {verbs[kind]} {levels}"
    if math.isfinite(row["null_high"]) and not phrasing.inside_null(row):
        text += (
            "; the mix of classes and chance would give up to"
            f" {reading.harm.number(row['null_high'])}"
        )
    return f"{text}."


def _dense_sentence(
    run: Run, choice: Choice, reading: Reading, axis: str, groups: pd.DataFrame
) -> str:
    quality, gap = (
        lookup.result(run, "dense", reading.quality.metric),
        lookup.harm(run, "dense", choice),
    )
    text = f"Uncut, the model's {reading.quality.name} was not measured"
    if quality is not None:
        text = (
            f"Uncut, the model's {reading.quality.name} is {reading.quality.with_interval(quality)}"
        )
    if len(groups) > 1:
        low, high = groups.loc[groups["value"].idxmin()], groups.loc[groups["value"].idxmax()]
        ends = (
            f"{words.quoted(row['group'])} ({reading.group.number(row['value'])})"
            for row in (low, high)
        )
        text += "; by {axis} it is lowest for {} and highest for {}".format(*ends, axis=axis)
    if gap is not None and math.isfinite(gap["null_high"]):
        side = phrasing.null_side(gap)
        band = reading.harm.span(gap["null_low"], gap["null_high"])
        text += (
            f". That gap lies {side} its null band ({band}); the mix of classes and chance alone "
            "would give that much"
        )
    return f"{text}."


def warnings(run: Run, choice: Choice, variant: dict[str, Any]) -> tuple[str, ...]:
    """Degenerate trials, a missed target, the null band, levelling down."""
    if variant["variant"] == "dense":
        return ()
    found = [
        degenerate_said(run, variant),
        missed_said(run, variant),
        inside_null_now(run, choice, variant),
    ]
    found += [text for text in (levelling_verdict(run, choice),) if text.startswith(LEVELLING)]
    return tuple(filter(None, found))


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

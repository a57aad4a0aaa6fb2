"""What a cut costs in quality and what it saves, in a sentence each; measured time only where it
clearly differs."""

from __future__ import annotations

import math
import re

from engine.core.types import Values
from engine.report import in_words, phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import MANY
from engine.report.charts.lookup import View, views
from engine.report.tracks import Measure, track_of
from engine.store.runs import Run

SAVED = (("flops", "of the FLOPs"), ("bytes", "of the bytes"))
"""Columns of the costs table that are said, in order."""
TRIFLE = 0.01
"""A saving that counts as none, as a share."""


def cost_said(view: View, sentence: str) -> str:
    """E.g. "Perplexity does not clearly change (13.4). It saves 8.3 % of the bytes and runs 1.1
    times as fast here."; not what the first sentence says of the quality."""
    found: list[str] = []
    for one in views(view.run, view.choice):
        quality, row = one.reading.quality, one.row(one.reading.quality)
        is_worse = row is not None and phrasing.direction(row) == quality.worse
        if not re.search(f"{quality.name} (from|by)", sentence) and (is_worse or not found):
            found.append(_quality(quality, row, view.is_dense))
    saved = saved_said(view.run, view.variant)
    return f"{' '.join((*found, saved)).strip()}{file_said(view.run) * (' bytes' in saved)}"


def _quality(measure: Measure, row: Values | None, is_dense: bool) -> str:
    name = phrasing.sentence(measure.name)
    if row is None or not math.isfinite(row["value"]):
        return f"{name} was not measured."
    if is_dense:
        return f"{name} is {in_words.short(row['value'])}."
    kind = phrasing.direction(row)
    if kind == "unknown":
        return (
            f"{name} is {in_words.short(row['value'])}; there are too few {measure.few} to tell "
            "whether it changed."
        )
    if kind == "unclear":
        return f"{name} does not clearly change ({in_words.short(row['value'])})."
    verb, before = "falls" if kind == "fell" else "rises", row["value"] - row["delta"]
    if measure.metric == "perplexity" and row["value"] < MANY * before:
        return f"{name} {verb} by {in_words.per_cent(row['delta'] / before)}."
    return f"{name} {verb} from {' to '.join(in_words.apart(before, row['value']))}."


def saved_said(run: Run, variant: Values) -> str:
    """What the cut saves, of what was measured; "" for the uncut model."""
    if variant["variant"] == "dense":
        return ""
    dense, mine = (costs_of(run, name) for name in ("dense", variant["variant"]))
    if dense is None or mine is None:
        return "What it saves was not measured."
    parts = [_share(dense, mine, column, of) for column, of in SAVED]
    said = phrasing.listing(filter(None, parts))
    time = track_of(run).ways.untimed(variant) or _time(mine, dense)
    return f"It saves {said}; {time}." if said else f"It makes the model no smaller; {time}."


def file_said(run: Run) -> str:
    """How many bytes the model has unpacked, and packed as it was read; "" where it was read as it
    is."""
    dense, packed = costs_of(run, "dense"), run.model.get("file_bytes")
    if dense is None or not packed:
        return ""
    whole, file = (f"{one / 1e6:,.0f} MB" for one in (dense["bytes"], packed))
    return f" Shares of bytes are of the model unpacked, {whole}; packed, as it was read, {file}."


def savings(run: Run, variant: Values) -> list[str]:
    """What a cut gains in size and speed, of what was measured and is no trifle, as verbs: "saves
    8.3 % of the bytes"."""
    dense, mine = (costs_of(run, name) for name in ("dense", variant["variant"]))
    if dense is None or mine is None:
        return []
    columns = [
        (column, of)
        for column, of in SAVED
        if mine.get(column, math.nan) <= (1 - TRIFLE) * dense.get(column, math.nan)
    ]
    found = [f"saves {_share(dense, mine, *one)}" for one in columns[:1]]
    is_faster = (
        phrasing.pace(mine, dense) == "faster"
        and mine.get("speedup_low", math.nan) > 1 + TRIFLE
        and not track_of(run).ways.untimed(variant)
    )
    return [*found, _time(mine, dense).removeprefix("it ")] if is_faster else found


def costs_of(run: Run, variant: str) -> Values | None:
    if not run.has("costs"):
        return None
    table = lookup.frame(run, "costs")
    rows = table[table["variant"] == variant]
    return None if rows.empty else rows.iloc[0].to_dict()


def _share(dense: Values, mine: Values, column: str, of: str) -> str:
    before, after = (row.get(column, math.nan) for row in (dense, mine))
    if not (math.isfinite(before) and math.isfinite(after)) or after >= before:
        return ""
    return f"{in_words.per_cent(1 - after / before)} {of}"


def _time(mine: Values, dense: Values) -> str:
    kind, middle = phrasing.pace(mine, dense), mine.get("speedup", math.nan)
    if kind == "unknown":
        return "time was not measured"
    if kind == "faster":
        much = (
            f"{in_words.short(middle)} times as fast"
            if middle >= 1.095
            else f"{in_words.per_cent(middle - 1)} faster"
        )
        return f"it ran {much} here"
    return "it ran more slowly here" if kind == "slower" else "not measurably faster here"

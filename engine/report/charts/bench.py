"""The bench of a classifier: a set that was tried, beside what was predicted of it; how many were
tried."""

from __future__ import annotations

import pandas as pd

from engine.core import words
from engine.core.types import Values, at_level
from engine.report.charts import lookup
from engine.report.charts.panel import Choice, Panel
from engine.report.hand_sets import (
    ON_KNOWN,
    TEST,
    VALIDATION,
    CutOf,
    trial_said,
    trial_split,
    tried_said,
    tried_variant,
)
from engine.report.tracks import Ahead, Units, track_of
from engine.store.runs import Run, where


def on_trial(
    run: Run, choice: Choice, off: Units, cut_of: CutOf, ahead: Ahead | None
) -> Panel | None:
    """A set that was tried: what came out, beside what was predicted. None where it was not
    tried."""
    split, variant = trial_split(run), tried_variant(run, off, cut_of)
    gap = lookup.harm(run, variant, choice, split) if variant else None
    if variant is None or gap is None:
        return None
    reading = lookup.reading(run, choice)
    whole = lookup.measured(run, variant, reading.quality, choice, split) or {}
    guess = ahead.tables["results"] if ahead else pd.DataFrame(columns=["metric", "axis"])
    lines = []
    for measure, row in ((reading.harm, gap), (reading.quality, whole)):
        mine = where(guess, metric=measure.metric, axis=row["axis"]).to_dict("records")
        lines.append(
            {
                "number": f"change of {measure.name}",
                **_predicted(mine),
                "measured": row["delta"],
                "measured low": row["delta_low"],
                "measured high": row["delta_high"],
            }
        )
    answer = (
        f"On {trial_said(run)} {reading.quality.name} changes by {reading.quality.change(whole)},"
        f" the {reading.harm.name} of {words.axis_name(choice.measured)} by"
        f" {reading.harm.change(gap)}."
    )
    note = f"n = {int(whole['n'])} {trial_said(run)}."
    if ahead is not None:
        note += " What is predicted is the change on test "
        note += f"{track_of(run).nouns.items}, which are others."
    note += "" if split == VALIDATION else f" {ON_KNOWN}"
    return Panel(
        "on_trial", "What came out where it was tried?", answer, None, pd.DataFrame(lines), note
    )


def _predicted(rows: list[Values]) -> dict[str, float]:
    names = {"predicted": "delta", "predicted low": "delta_low", "predicted high": "delta_high"}
    return {name: rows[0][of] for name, of in names.items()} if rows else {}


def said(run: Run, choice: Choice) -> str:
    """How many sets were tried, and what chance makes of the best."""
    metric, items = lookup.reading(run, choice).harm.metric, track_of(run).nouns.items
    return tried_said(
        run, metric, choice.measured, trial_split(run), TEST, (trial_said(run), f"test {items}")
    )


def as_method(run: Run, choice: Choice, cut_of: CutOf) -> Units:
    """The units that the chosen method cuts in its first repeat, at the chosen level."""
    table, level = lookup.frame(run, "variants"), track_of(run).level
    mine = table[(table["method"] == choice.method) & (table["seed"] >= 0)].sort_values("seed")
    mine = mine[at_level(mine[level.column], choice.level)]
    return () if mine.empty else tuple(cut_of(mine.iloc[0].to_dict()) or ())


def head_name(run: Run, unit: int) -> str:
    """A head as it is written: "0.3"."""
    return ".".join(map(str, divmod(unit, run.model["n_heads"])))

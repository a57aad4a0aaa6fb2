"""What a change is called, better or worse, and when nothing may be said of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contract import Measure
from engine.report.tracks import track_of
from engine.store.runs import Run


def kind_of(run: Run, choice: Choice, measure: Measure, row: Mapping[str, Any]) -> str:
    """Whether a change is "better", "worse", "no clear change" or "not compared"; "no verdict"
    where the uncut model has not learned its task.

    Of a harm that was no more than chance before the cut, only a rise above that is a change.
    """
    if track_of(run).telling.unlearned(run):
        return "no verdict"
    kind = phrasing.direction(row)
    if kind in ("unclear", "unknown"):
        return "no clear change" if kind == "unclear" else "not compared"
    is_better = kind == measure.better
    if measure.metric == lookup.reading(run, choice).harm.metric:
        dense = lookup.harm(run, "dense", choice)
        was_chance = dense is not None and phrasing.inside_null(dense)
        if was_chance and (is_better or phrasing.inside_null(row)):
            return "no clear change"
    return "better" if is_better else "worse"


def null_warning(run: Run, choice: Choice) -> str:
    """What to say when the dense model's harm is no larger than chance gives; "" otherwise."""
    dense, track = lookup.harm(run, "dense", choice), track_of(run)
    if not track.null.means or dense is None or not phrasing.inside_null(dense):
        return ""
    harm = track.reading(choice.reading).harm
    return (
        f"The dense model's {harm.of(words.axis_name(choice.measured))} "
        f"({harm.number(dense['value'])}) lies inside its null band "
        f"({harm.span(dense['null_low'], dense['null_high'])}): at {int(dense['n']):,} "
        f"{harm.of_what or track.items} it could be chance alone. "
        f"{harm.null_means or track.null.means}"
    )

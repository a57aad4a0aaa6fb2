"""The answer in a sentence and four numbers: does this cut help, what does it cost, who pays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contract import Measure
from engine.report.tracks import track_of
from engine.store.runs import Run

LEVELLING = "Levelling down"
"""How a verdict begins that must be said beside the numbers."""


@dataclass(frozen=True)
class Number:
    """One number with its interval and its paired change against the dense model. NaN where not
    measured."""

    label: str
    value: float
    low: float
    high: float
    delta: float
    delta_low: float
    delta_high: float
    unit: str
    good_direction: str
    text: str
    change_text: str
    verdict: str
    """As `kind_of` says it; "" for the dense model itself."""
    help: str
    span_text: str
    delta_text: str
    delta_span_text: str


@dataclass(frozen=True)
class Headline:
    """What an overview shows. `warnings` must be shown; `caveat` says n, how it was measured and
    kind of interval."""

    sentence: str
    numbers: tuple[Number, ...]
    warnings: tuple[str, ...]
    caveat: str


def headline(run: Run, choice: Choice) -> Headline:
    """The overview of one variant, from test data only. Raises RequestError for an unknown method
    or level."""
    track, variant = track_of(run), lookup.variant_of(run, choice)
    measures = lookup.reading(run, choice).cards
    rows = [lookup.measured(run, variant["variant"], measure, choice) for measure in measures]
    numbers = tuple(
        _number(run, choice, measure, row, variant["variant"])
        for measure, row in zip(measures, rows, strict=True)
        if row is not None
    )
    return Headline(
        track.sentence(run, choice, variant),
        numbers,
        track.warnings(run, choice, variant),
        track.caveat(run, choice, rows[0]),
    )


def _number(
    run: Run, choice: Choice, measure: Measure, row: dict[str, Any], variant: str
) -> Number:
    word, nan = measure.word, math.nan
    delta, low, high = (row.get(name, nan) for name in ("delta", "delta_low", "delta_high"))
    group = str(row.get("group") or "") if measure.names_group else ""
    return Number(
        label=f"{word.name}: {words.group_name(group)}" if group else word.name,
        value=row["value"],
        low=row["low"],
        high=row["high"],
        delta=delta,
        delta_low=low,
        delta_high=high,
        unit=word.unit,
        good_direction=word.better,
        text=measure.number(row["value"]),
        change_text="" if variant == "dense" else measure.change(row),
        verdict="" if variant == "dense" else kind_of(run, choice, measure, row),
        help=f"{word.definition} {word.caveat}".strip(),
        span_text=measure.span(row["low"], row["high"]),
        delta_text=measure.signed(delta),
        delta_span_text=measure.span(low, high),
    )


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
    if not track.null_means or dense is None or not phrasing.inside_null(dense):
        return ""
    harm = track.reading(choice.reading).harm
    return (
        f"The dense model's {harm.of(words.axis_name(choice.measured))} "
        f"({harm.number(dense['value'])}) lies inside its null band "
        f"({harm.span(dense['null_low'], dense['null_high'])}): at {int(dense['n']):,} "
        f"{harm.of_what or track.items} it could be chance alone. "
        f"{harm.null_means or track.null_means}"
    )


def inside_null_now(run: Run, choice: Choice, variant: Mapping[str, Any]) -> str:
    """What to say when the harm is inside the null band after the cut; "" otherwise."""
    row = lookup.harm(run, variant["variant"], choice)
    if row is None or not phrasing.inside_null(row):
        return ""
    harm = lookup.reading(run, choice).harm
    side = phrasing.null_side(row) or "inside"
    stands = track_of(run).instead(run, variant)
    after = f"With {track_of(run).label(variant)} the" if stands else "After the cut the"
    return (
        f"{after} {harm.name} ({harm.number(row['value'])}) lies {side} its null band (up to "
        f"{harm.number(row['null_high'])}): {track_of(run).null_now}.{not_zero(row)}"
    )


def not_zero(row: Mapping[str, Any]) -> str:
    """What a gap inside its null band can still be: a band of classes' shares may lie well above
    zero."""
    low, null_low = row.get("low", math.nan), row.get("null_low", math.nan)
    if not (math.isfinite(low) and math.isfinite(null_low)) or low <= 0 or null_low <= 0:
        return ""
    return " The gap itself is not zero."

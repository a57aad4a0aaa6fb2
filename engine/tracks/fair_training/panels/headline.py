"""The overview's sentence for a run of fair training: who paid, the gap, and what kind of sparsity it is."""

from __future__ import annotations

import math
from typing import Any

from engine.core import words
from engine.report import phrasing
from engine.report.charts import classifier_headline, lookup
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import WEIGHTS, fair_axis


def sentence(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    """The sentence of any classifier; a model without a cut, and a gap that is a change already, are said otherwise."""
    if variant["method"] in track_of(run).uncut:
        return _uncut(run, choice, variant)
    if choice.reading == "degradation" and variant["variant"] != "dense":
        return f"{classifier_headline.who_paid(run, choice, variant)}{_gap(run, choice, variant)}"
    return classifier_headline.sentence(run, choice, variant)


def _uncut(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    reading = lookup.reading(run, choice)
    name = phrasing.sentence(words.method_name(variant["method"]))
    quality = lookup.result(run, variant["variant"], reading.quality.metric)
    level = "was not measured" if quality is None else f"is {reading.quality.with_interval(quality)}"
    text = f"{name} cuts nothing: trained on as long as the others, its {reading.quality.name} {level}"
    return f"{text}.{_gap(run, choice, variant)}"


def _gap(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    """The gap as it is, with its null band."""
    row, harm = lookup.harm(run, variant["variant"], choice), lookup.reading(run, choice).harm
    axis = words.axis_name(choice.measured)
    if row is None or not math.isfinite(row["value"]):
        return f" The {harm.name} of {axis} was not measured."
    text = f" The {harm.name} of {axis} is {harm.with_interval(row)}"
    if math.isfinite(row["null_high"]):
        side = phrasing.null_side(row)
        text += f", {side} what the mix of classes and chance alone would give (up to {harm.number(row['null_high'])})"
    return f"{text}."


def warnings(run: Run, choice: Choice, variant: dict[str, Any]) -> tuple[str, ...]:
    """The warnings of a classifier, that weights stay in place, and that another axis was trained for."""
    found = list(classifier_headline.warnings(run, choice, variant))
    if variant["method"] in track_of(run).uncut:  # the sentence says it already, and there was no cut
        found = [text for text in found if not text.startswith("After the cut")]
    if variant.get("units") == WEIGHTS:
        found.append(own.NOT_FASTER)
    if choice.measured != fair_axis(run) and variant["variant"] != "dense":
        found.append(
            f"Training was asked to be fair to {words.axis_name(fair_axis(run))}; {words.axis_name(choice.measured)} "
            "was not part of it."
        )
    return tuple(found)

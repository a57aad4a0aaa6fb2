"""The overview's sentence for a run of fair training: who paid, the gap, and what kind of sparsity
it is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from engine.core import words
from engine.report import phrasing
from engine.report.charts import classifier_headline, cost, lookup
from engine.report.charts.headline import LEVELLING
from engine.report.charts.panel import Choice, Panel
from engine.report.contract import Measure
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels.lookup import FILTERS, WEIGHTS, fair_axis

BESIDE = ("tpr_gap", "degradation_gap")
"""Gaps that are said beside the one that is read."""


def sentence(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    """The sentence of any classifier; a model without a cut, and a gap that is a change already,
    are said otherwise."""
    if variant["method"] in track_of(run).uncut:
        return f"{_uncut(run, choice, variant)}{_beside(run, choice, variant)}"
    if variant["variant"] == "dense":
        return classifier_headline.sentence(run, choice, variant)
    paid = classifier_headline.who_paid(run, choice, variant)
    parts = (say(run, choice, variant) for say in (_gap, _before, _beside))
    return f"{paid}{''.join(parts)}"


def _uncut(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    reading = lookup.reading(run, choice)
    name = phrasing.sentence(words.method_name(variant["method"]))
    quality = lookup.result(run, variant["variant"], reading.quality.metric)
    level = (
        "was not measured" if quality is None else f"is {reading.quality.with_interval(quality)}"
    )
    text = (
        f"{name} cuts nothing: trained on as long as the others, its {reading.quality.name} {level}"
    )
    return f"{text}.{_gap(run, choice, variant)}"


def _gap(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    """By how much the gap exceeds what its own null band allows."""
    row, harm = lookup.harm(run, variant["variant"], choice), lookup.reading(run, choice).harm
    axis = words.axis_name(choice.measured)
    if row is None or not math.isfinite(row["value"]):
        return f" The {harm.name} of {axis} was not measured."
    return f" The {harm.name} of {axis} is {harm.with_interval(row)}{_excess(harm, row)}."


def _excess(measure: Measure, row: dict[str, Any]) -> str:
    """Where a gap lies against its own null band, and by how much it exceeds that; "" where it has
    none."""
    if not (math.isfinite(row["value"]) and math.isfinite(row["null_high"])):
        return ""
    most = (
        "of what the mix of classes and chance alone would give (up to"
        f" {measure.number(row['null_high'])})"
    )
    if phrasing.inside_null(row):
        return f", no excess over its own null band, {most}"
    return f", {measure.number(row['value'] - row['null_high'])} above its own null band, {most}"


def has_gap_to_mend(run: Run, choice: Choice) -> bool:
    """Whether the starting model's gap lies above its own null band; a gap of degradation starts at
    0 by definition."""
    row = lookup.harm(run, "dense", choice)
    return (
        row is None
        or not math.isfinite(row.get("null_high", math.nan))
        or not phrasing.inside_null(row)
    )


def _before(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    """The gap of the starting model and the change, or why no smaller gap is claimed."""
    harm, dense = lookup.reading(run, choice).harm, lookup.harm(run, "dense", choice)
    row = lookup.harm(run, variant["variant"], choice)
    if (
        dense is None
        or row is None
        or not math.isfinite(dense["value"])
        or not math.isfinite(row["value"])
    ):
        return ""
    if not has_gap_to_mend(run, choice):
        return (
            f" The starting model's gap ({harm.number(dense['value'])}) could be chance alone (up "
            f"to {harm.number(dense['null_high'])}). There was no gap to mend, so no smaller one "
            "is claimed."
        )
    verbs = {
        "fell": "shrinks",
        "rose": "grows",
        "unclear": "does not clearly change",
        "unknown": "moves",
    }
    start = f" Against the starting model's {harm.number(dense['value'])}{_excess(harm, dense)}"
    return f"{start}, it {verbs[phrasing.direction(row)]} (change {harm.change(row)})."


def _beside(run: Run, choice: Choice, variant: dict[str, Any]) -> str:
    """Gaps of true positives and of degradation beside the one that is read: a small gap of
    accuracy can hide both."""
    read, said = lookup.reading(run, choice).harm.metric, []
    for metric in BESIDE:
        measure = Measure(metric, few=track_of(run).items)
        row = (
            None
            if metric == read
            else lookup.result(run, variant["variant"], metric, choice.measured)
        )
        if row is not None and math.isfinite(row["value"]):
            side = phrasing.null_side(row)
            said.append(
                f"{measure.name}"
                f" {measure.number(row['value'])}{f' ({side} its null band)' if side else ''}"
            )
    return f" Other gaps: {phrasing.listing(said)}." if said else ""


def warnings(run: Run, choice: Choice, variant: dict[str, Any]) -> tuple[str, ...]:
    """The warnings of a classifier, that weights stay in place, and that another axis was trained
    for."""
    found = list(classifier_headline.warnings(run, choice, variant))
    if not has_gap_to_mend(run, choice):  # a gap that was none did not shrink either
        found = [text for text in found if not text.startswith(LEVELLING)]
    if (
        variant["method"] in track_of(run).uncut
    ):  # the sentence says it already, and there was no cut
        found = [text for text in found if not text.startswith("After the cut")]
    if variant.get("units") == WEIGHTS:
        found.append(own.NOT_FASTER)
    if choice.measured != fair_axis(run) and variant["variant"] != "dense":
        found.append(
            f"Training was asked to be fair to {words.axis_name(fair_axis(run))};"
            f" {words.axis_name(choice.measured)} was not part of it."
        )
    return tuple(found)


# What a sparse model saves: as any cut model, but plainly nothing where single weights are zero.


def saved(run: Run, choice: Choice) -> Panel:
    """The cost panel, with what the units of the method mean for it."""
    variant, panel = lookup.variant_of(run, choice), cost.cost(run, choice)
    if variant.get("units") == WEIGHTS:
        share = phrasing.percent(round(float(variant["parameters_cut"]), 3))
        return replace(
            panel, answer=f"{share} of all parameters are zero.", mind=own.NOT_FASTER, more=""
        )
    if variant["variant"] != "dense" and variant.get("units") != FILTERS:
        return replace(panel, answer="Nothing is cut here, so nothing is saved.", mind="", more="")
    if variant["variant"] == "dense":
        return panel
    return replace(panel, caveat=f"{panel.caveat} The model of the first seed.")

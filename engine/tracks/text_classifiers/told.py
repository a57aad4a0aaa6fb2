"""What was predicted beside what was measured, for whoever asked for a set of heads. No torch."""

from __future__ import annotations

from typing import Any

from engine.audit.growth import Growth
from engine.report.charts.panel import Choice
from engine.report.hand_classifiers import TEST
from engine.report.hand_told import classifier_rows, told_of
from engine.store.runs import Run
from engine.tracks.text_classifiers.ahead import ahead_of_set
from engine.tracks.text_classifiers.growing import chosen_of
from engine.tracks.text_classifiers.words import NOT_RETUNED


def told(before: Run, after: Run, growth: Growth) -> dict[str, Any]:
    """As `told_of` says it; the notes say what the numbers are of."""
    chosen, split = chosen_of(after, growth)
    units = chosen.mask.units
    ahead = ahead_of_set(
        before, Choice(chosen.name, growth.axis, chosen.mask.sparsity, reading="accuracy"), units
    )
    notes = (
        [f"Predictions are for test texts; these are {split} texts."]
        if ahead and split != TEST
        else []
    )
    notes += [NOT_RETUNED, *([ahead.said] if ahead else [])]
    rows = classifier_rows(after, growth, chosen.name, split, ahead)
    return told_of(before, after, split, {chosen.name: chosen.mask.cut}, rows, notes)

"""What was measured of a set of filters, for whoever asked for it. No torch."""

from __future__ import annotations

from typing import Any

from engine.audit.growth import Growth
from engine.report.hand_told import classifier_rows, told_of
from engine.store.runs import Run
from engine.tracks.image_classifiers.growing import chosen_of
from engine.tracks.image_classifiers.unit_words import said
from engine.tracks.image_classifiers.words import NO_EFFECTS, NOT_RETRAINED


def told(before: Run, after: Run, growth: Growth) -> dict[str, Any]:
    """As `told_of` says it; nothing is predicted."""
    chosen, split = chosen_of(after, growth)
    notes = [said(before, text) for text in (NOT_RETRAINED, NO_EFFECTS)]
    rows = classifier_rows(after, growth, chosen.name, split, None)
    return told_of(before, after, split, {chosen.name: chosen.mask.to_dict()}, rows, notes)

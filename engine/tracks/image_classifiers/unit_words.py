"""What a run's units are called: filters of a CNN, heads of a vision transformer."""

from __future__ import annotations

import re

from engine.store.runs import Run

FILTERS, HEADS = "filters", "heads"
_OF_HEADS = {
    "filter": "head",
    "Filter": "Head",
    "filters": "heads",
    "Filters": "Heads",
    "first convolution": "attention layer",
}


def units_of(run: Run) -> str:
    """The units of a run in the plural."""
    return str(run.meta["model"].get("units", FILTERS))


def said(run: Run, text: str) -> str:
    """A text written about filters, about the run's units."""
    return in_units(text, units_of(run))


def in_units(text: str, units: str) -> str:
    """A text written about filters, about these units."""
    if units != HEADS:
        return text
    return re.sub(rf"\b({'|'.join(_OF_HEADS)})\b", lambda found: _OF_HEADS[found[0]], text)

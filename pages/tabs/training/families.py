"""Which of the methods of fair training the charts show: a switch that several tabs have."""

from __future__ import annotations

from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels import lookup
from pages.shared import state
from pages.shared.cache import KeptRun
from pages.shared.controls import segmented


def family_of(run: KeptRun) -> str:
    """The family of methods that the reader chose."""
    return segmented("Methods shown", lookup.families(run), state.FAMILY, _named)


def _named(name: str) -> str:
    return own.FAIR_FAMILIES[name].name

"""Effort: how much training it takes, how that went, and what the cut saves."""

from __future__ import annotations

import streamlit as st

from engine.report.charts.panel import Choice
from engine.tracks.fair_training.panels import effort, saved, training_curves
from pages.shared import panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import choose_reading, segmented
from pages.shared.navigation import Tab
from pages.tabs.training.families import family_of

COUNTED = {"examples": "Images read", "iterations": "Weight updates", "seconds": "Seconds"}
"""The first is the usual: as many updates of BiFP read more images."""


def draw(run: KeptRun, choice: Choice) -> None:
    with st.container(horizontal=True, gap="medium"):
        by = segmented("Training counted in", list(COUNTED), state.EFFORT, COUNTED.__getitem__)
        family = family_of(run)
        choice = choose_reading(run, choice)
    panels.draw(made(run, effort.effort, choice, by=by, family=family))
    panels.draw(made(run, training_curves.training, choice))
    panels.draw(made(run, saved.saved, choice))
    options = {effort.effort: {"by": by, "family": family}}
    panels.look_ahead(run, (effort.effort, training_curves.training, saved.saved), choice, options)


TAB = Tab("Effort", draw)

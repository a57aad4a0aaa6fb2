"""Across axes: do heads that add to one bias add to others, and do the scores agree?"""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from engine.report import phrasing
from engine.report.charts.panel import Choice
from engine.report.tracks import Effects, track_of
from engine.tracks.language_models.panels import correlations
from pages.shared import panels, published, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import fold, grid
from pages.shared.navigation import Tab


def across_axes(run: KeptRun, choice: Choice) -> None:
    with st.container(horizontal=True, gap="large"):
        published.source()
        kind = published.correlation()
    correlation = correlations.axis_correlation
    panels.show(
        run,
        choice,
        (correlation, correlations.method_agreement),
        correlations.top_heads,
        options={correlation: {"kind": kind}},
    )
    maps, axes = track_of(run).maps, run.request["axes"]
    others = [axis for axis in axes if axis != choice.axis]
    if isinstance(maps, Effects) and others:
        count = phrasing.count(len(others), "axis", "axes")
        title = f"Which heads add to the bias of the other {count}?"
        key = state.key_of(state.FOLD, "axes")
        fold(title, key, lambda: _other_maps(run, choice, maps, others))


def _other_maps(run: KeptRun, choice: Choice, maps: Effects, axes: list[str]) -> None:
    """The map of every axis but the chosen one, which stands on the first tab."""
    for column, axis in grid(axes, 2):
        with column:
            panel = made(run, maps.bias, replace(choice, axis=axis))
            panels.draw(panel, state.key_of("map", axis))


TAB = Tab("Across axes", across_axes)

"""Across axes: do the same heads matter for every axis? For an audit, or for published scores; needs no model."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from engine.report.charts.panel import Choice
from engine.report.contract import Effects
from engine.report.tracks import track_of
from engine.tracks.language_models.panels import correlations
from pages.shared import panels, published, state
from pages.shared.cache import KeptRun, made
from pages.shared.tabs import Tab


def draw(run: KeptRun, choice: Choice) -> None:
    with st.container(horizontal=True, gap="large"):
        published.source()
        kind = published.correlation()
    left, right = st.columns(2, gap="large")
    with left:
        panels.draw(made(run, correlations.axis_correlation, choice, kind=kind))
    with right:
        panels.draw(made(run, correlations.method_agreement, choice))
    panels.draw(made(run, correlations.top_heads, choice))
    _other_maps(run, choice)


def _other_maps(run: KeptRun, choice: Choice) -> None:
    """The map of every axis but the chosen one, which stands on the first tab."""
    maps = track_of(run).maps
    if isinstance(maps, Effects):
        for axis in run.meta["request"]["axes"]:
            if axis != choice.axis:
                panels.draw_folded(made(run, maps.bias, replace(choice, axis=axis)), state.key_of("map", axis))


TAB = Tab("Across axes", draw)

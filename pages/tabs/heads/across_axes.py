"""Across axes: do the same heads matter for every axis? For an audit, or for published scores;
needs no model."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from engine.report import phrasing
from engine.report.charts.panel import Choice
from engine.report.contract import Effects
from engine.report.tracks import track_of
from engine.tracks.language_models.panels import correlations
from pages.shared import panels, published, state
from pages.shared.cache import KeptRun, made
from pages.shared.navigation import Tab


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
    """The map of every axis but the chosen one, which stands on the first tab; drawn when they are
    asked for."""
    maps, others = (
        track_of(run).maps,
        [axis for axis in run.meta["request"]["axes"] if axis != choice.axis],
    )
    if not isinstance(maps, Effects) or not others:
        return
    title = (
        f"Which heads add to the bias of the other {phrasing.count(len(others), 'axis', 'axes')}?"
    )
    with st.expander(title, key=state.key_of(state.FOLD, "axes"), on_change="rerun") as box:
        if box.open:
            for at, axis in enumerate(others):
                if at % 2 == 0:
                    columns = st.columns(2, gap="large")
                with columns[at % 2]:
                    panels.draw(
                        made(run, maps.bias, replace(choice, axis=axis)), state.key_of("map", axis)
                    )


TAB = Tab("Across axes", draw)

"""One head: what it does, what the model writes without it, and all its numbers."""

from __future__ import annotations

import streamlit as st

from engine.report.charts.panel import Choice
from engine.report.contract import Effects
from engine.report.tracks import track_of
from pages.shared import one_head, panels
from pages.shared.cache import KeptRun, made
from pages.shared.navigation import Tab


def draw(run: KeptRun, choice: Choice) -> None:
    maps = track_of(run).maps
    if isinstance(maps, Effects):
        _effects(run, choice, maps)
    elif maps:
        one_head.numbers(run, maps.numbers)


def _effects(run: KeptRun, choice: Choice, maps: Effects) -> None:
    left, right = st.columns([5, 6], gap="large")
    with left:
        unit = one_head.walk(run, made(run, maps.ranked, choice))
        one_head.about(run, choice, maps, unit)
    with right:
        one_head.without(made(run, maps.changed, choice, unit))
        st.markdown("**All numbers of this head**")
        panels.table(made(run, maps.numbers, unit))


TAB = Tab("One head", draw)

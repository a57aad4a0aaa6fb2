"""Result: who stays accurate as more is cut, and how far apart the subgroups are."""

from __future__ import annotations

import streamlit as st

from engine.report.charts import classifier_groups, levelling
from engine.report.charts import lookup as shared
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.tracks.fair_training.panels import curve, lookup
from pages.shared import panels
from pages.shared.cache import KeptRun, made
from pages.shared.controls import choose_reading, method_label
from pages.shared.navigation import Tab
from pages.shared.safe import plain
from pages.tabs.training.families import family_of

SHOWN = (curve.fair_curve, classifier_groups.paid_by_group, levelling.levelling_down)


def draw(run: KeptRun, choice: Choice) -> None:
    with st.container(horizontal=True, gap="medium"):
        family = family_of(run)
        choice = choose_reading(run, choice)
    panels.draw(made(run, curve.fair_curve, choice, family=family))
    _definitions(run, family, choice)
    panels.beside(run, choice, classifier_groups.paid_by_group, levelling.levelling_down)
    panels.look_ahead(run, SHOWN, choice, {curve.fair_curve: {"family": family}})


def _definitions(run: KeptRun, family: str, choice: Choice) -> None:
    """What the methods of the charts do, in a sentence each."""
    offered = made(run, shared.methods)
    with st.expander("What do these methods do?", icon=":material/help:"):
        for name in lookup.shown_of(offered, family, choice.method):
            st.markdown(f"**{plain(method_label(name))}**: {track_of(run).definition(name)}")


TAB = Tab("Result", draw)

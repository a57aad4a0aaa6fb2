"""Who: up to which share of heads it is still a winning ticket, and for which group it is lost
first."""

from __future__ import annotations

import streamlit as st

from engine.report.charts import classifier_groups
from engine.report.charts.panel import Choice
from engine.tracks.text_classifiers.panels import curve, groups, lookup, table
from pages.shared import panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import choose_reading, select, texts_label
from pages.shared.navigation import Tab

ALL = ""
SHOWN = (
    curve.tickets_curve,
    table.tickets_table,
    curve.tickets_by_group,
    classifier_groups.paid_by_group,
)


def draw(run: KeptRun, choice: Choice) -> None:
    with st.container(horizontal=True, gap="medium"):
        group = group_of(run, choice)
        choice = choose_reading(run, choice)
    panels.draw(made(run, curve.tickets_curve, choice, group=group))
    panels.beside(run, choice, table.tickets_table, classifier_groups.paid_by_group)
    panels.draw_folded(made(run, curve.tickets_by_group, choice), "by_group")
    if made(run, groups.has_borkan, choice):
        panels.draw_folded(made(run, groups.borkan, choice), "borkan")
    panels.look_ahead(run, SHOWN, choice, {curve.tickets_curve: {"group": group}})


def group_of(run: KeptRun, choice: Choice) -> str:
    """All texts, or one group of the chosen axis."""
    groups = [ALL, *lookup.groups_of_axis(run, choice.measured)]
    with st.container(width=320):
        return select("Measured on", groups, state.TICKET_GROUP, texts_label)


TAB = Tab("Who", draw)

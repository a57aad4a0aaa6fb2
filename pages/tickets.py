"""Tickets: how many heads can go, for whom it is still a winning ticket, which heads survive."""

from __future__ import annotations

import streamlit as st

from engine.report.charts.by_group import paid_by_group
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.tracks.text_classifiers.panels import curve, importance, published, survival
from pages.shared import cache, panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import choose_reading, group_label, line, select
from pages.shared.frame import draw_page, tabbed
from pages.shared.navigation import Tab


def who(run: KeptRun, choice: Choice) -> None:
    """Up to which share of heads it is still a winning ticket, and for which group it is lost
    first."""
    with line():
        with st.container(width=320):
            offered = ["", *survival.groups_of_axis(run, choice.measured)]
            group = select("Measured on", offered, state.TICKET_GROUP, group_label)
        choice = choose_reading(run, choice)
    panels.show(
        run,
        choice,
        curve.tickets_curve,
        (curve.tickets_table, paid_by_group),
        options={curve.tickets_curve: {"group": group}},
    )
    panels.draw_folded(made(run, curve.tickets_by_group, choice), "by_group")
    if made(run, curve.has_borkan, choice):
        panels.draw_folded(made(run, curve.borkan, choice), "borkan")


WHICH_HEADS = (
    (survival.survival, survival.cut_order),
    importance.score_difference,
    importance.random_masks,
    importance.score_truth,
)
"""Does the score choose better heads than chance, which survive, and in which order do they go?"""


def tasks(run: KeptRun, choice: Choice) -> None:
    """Do other tasks keep the same heads, and what did the thesis print?"""
    mine, ids = track_of(run).name, [one.id for one in cache.all_runs() if one.id != run.id]
    others = tuple(cache.open_run(one) for one in ids if cache.track_name_of(one) == mine)
    panels.draw(survival.between_tasks(run, choice, others))
    panels.draw_folded(made(run, published.thesis_tables, choice), "thesis")


TABS = (
    Tab("Who", who),
    Tab("Which heads", panels.shows(*WHICH_HEADS)),
    Tab("Iterations", panels.shows(survival.iterations)),
    Tab("Tasks", tasks),
)
draw_page(lambda: tabbed("tickets", TABS))

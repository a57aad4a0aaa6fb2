"""Summary: the verdict in plain words, three numbers, what it costs, who pays, what was cut, and
where to go on."""

from __future__ import annotations

import streamlit as st

from engine.report.charts import lookup
from engine.report.charts.what_was_cut import what_was_cut, who_pays_small
from engine.report.tracks import prediction_of, track_of
from engine.report.verdict import verdict
from pages.shared import panels, state, welcome
from pages.shared.cache import made
from pages.shared.controls import choose_tolerances
from pages.shared.frame import draw_page, link, opened
from pages.shared.measuring import offer_level, shown_at


def page() -> None:
    if welcome.is_due():
        welcome.show()
        return
    measured, choice = opened("summary", ahead=True)
    track = track_of(measured)
    run = shown_at(measured, choice)
    told = st.container()
    if made(run, verdict, choice).advice.said:
        choice = choose_tolerances(run, choice)
    with told:
        panels.verdict(made(run, verdict, choice))
    left, right = st.columns([11, 8], gap="large")
    with left:
        panels.draw_chart(made(run, who_pays_small, choice), "who_pays_small")
    with right:
        panels.draw_chart(made(run, what_was_cut, choice), "small_what_was_cut", alone=True)
        with st.container(key=state.NEXT_STEPS, horizontal=True, gap="small"):
            link(track.screens.pages[0], "Why")
            link("examples", "What flipped")
            if "labels.TAB" in track.screens.tabs.get("examples", ()):
                link("examples", "Label texts", tab="labels")
            link("reliability" if "reliability" in track.screens.pages else "measured", "How sure")
            link("export", "Take it")
    panels.folded("More about it", run, choice, (what_was_cut, *track.charts.folded))
    if said := lookup.not_finished(run, choice):
        st.caption(said)
    link("new_audit", "Another axis or method")
    if not prediction_of(run):
        offer_level(measured, choice)
    panels.look_ahead(run, (verdict, who_pays_small, what_was_cut), choice)


draw_page(page)

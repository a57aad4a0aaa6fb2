"""Summary: the answer in a sentence, four numbers, who pays, and how it goes along the slider."""

from __future__ import annotations

import streamlit as st

from engine.report.charts.headline import headline
from engine.report.tracks import track_of
from pages.shared import panels
from pages.shared.cache import made
from pages.shared.controls import choose, offer_missing
from pages.shared.frame import begin_app, boundary, heading, need_run
from pages.shared.measuring import offer_level, shown_at


def page() -> None:
    heading("summary")
    measured = need_run()
    choice, shown = choose(measured, ahead=True), track_of(measured).overview
    run = shown_at(measured, choice)
    panels.headline(made(run, headline, choice))
    for column, make in zip(st.columns(2, gap="large"), shown.beside, strict=True):
        with column:
            panels.draw(made(run, make, choice), make.__name__)
    left, right = st.columns(2, gap="large")
    with left:
        for make in shown.folded:
            panels.draw_folded(made(run, make, choice), make.__name__)
        offer_missing(run, choice)
        if track_of(run).trains:
            offer_level(measured, choice)
    with right:
        panels.draw(made(run, shown.right, choice), shown.right.__name__)
    panels.look_ahead(run, (headline, *shown.beside, shown.right, *shown.folded), choice)


begin_app()
with boundary():
    page()

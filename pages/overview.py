"""Overview: the answer in a sentence, four numbers, who pays, and how it goes along the slider."""

from __future__ import annotations

import streamlit as st

from engine.report.charts.headline import headline
from engine.report.tracks import track_of
from pages.shared import panels
from pages.shared.cache import made
from pages.shared.controls import choose, offer_missing
from pages.shared.frame import begin_app, boundary, heading, need_run


def page() -> None:
    heading("overview")
    run = need_run()
    choice, shown = choose(run), track_of(run).overview
    panels.headline(made(run, headline, choice))
    for column, make in zip(st.columns(2, gap="large"), shown.beside, strict=True):
        with column:
            panels.draw(made(run, make, choice), make.__name__)
    left, right = st.columns(2, gap="large")
    with left:
        for make in shown.folded:
            panels.draw_folded(made(run, make, choice), make.__name__)
        offer_missing(run, choice)
    with right:
        panels.draw(made(run, shown.right, choice), shown.right.__name__)
    panels.look_ahead(run, (headline, *shown.beside, shown.right, *shown.folded), choice)


begin_app()
with boundary():
    page()

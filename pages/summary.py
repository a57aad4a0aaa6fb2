"""Summary: the verdict in plain words, three numbers, what it costs, who pays, what was cut, and
where to go on."""

from __future__ import annotations

import streamlit as st

from engine.report.charts.panel import Choice
from engine.report.charts.small import who_pays_small
from engine.report.charts.what_was_cut import what_was_cut
from engine.report.contract import Track
from engine.report.tracks import track_of
from engine.report.verdict import verdict
from pages.shared import panels, told, welcome
from pages.shared.cache import KeptRun, made
from pages.shared.controls import choose, offer_missing
from pages.shared.frame import begin_app, boundary, heading, need_run
from pages.shared.measuring import offer_level, shown_at


def page() -> None:
    if welcome.is_due():
        welcome.show()
        return
    heading("summary")
    measured = need_run()
    choice, track = choose(measured, ahead=True), track_of(measured)
    run = shown_at(measured, choice)
    said = made(run, verdict, choice)
    told.sentences(said)
    told.numbers(said)
    left, right = st.columns([11, 8], gap="large")
    with left:
        panels.draw_chart(made(run, who_pays_small, choice), who_pays_small.__name__)
    with right:
        panels.picture(made(run, what_was_cut, choice), what_was_cut.__name__)
        told.next_steps(track)
    _more(run, measured, choice, track)
    panels.look_ahead(run, (verdict, who_pays_small, what_was_cut), choice)


def _more(run: KeptRun, measured: KeptRun, choice: Choice, track: Track) -> None:
    """What else is known about this cut, and what is not finished."""
    panels.fold(
        "More about it", [(run, make, choice) for make in (what_was_cut, *track.overview.folded)]
    )
    offer_missing(run, choice)
    if track.trains:
        offer_level(measured, choice)


begin_app()
with boundary():
    page()

"""Summary: what was audited, the verdict in plain words, who pays, three numbers, the cost, and where to go on."""

from __future__ import annotations

import streamlit as st

from engine.report.charts.panel import Choice
from engine.report.contract import Track
from engine.report.tracks import track_of
from engine.report.verdict import verdict
from pages.shared import landing, panels, told
from pages.shared.cache import KeptRun, made
from pages.shared.controls import choose, offer_missing
from pages.shared.frame import begin_app, boundary, heading, need_run
from pages.shared.measuring import offer_level, shown_at


def page() -> None:
    if landing.is_due():
        landing.show()
        return
    heading("summary")
    measured = need_run()
    choice, track = choose(measured, ahead=True), track_of(measured)
    run = shown_at(measured, choice)
    said = made(run, verdict, choice)
    told.sentences(said)
    left, right = st.columns([11, 8], gap="large")
    with left:
        who = track.overview.beside[0]
        panels.draw_chart(made(run, who, choice), who.__name__)
    with right:
        told.numbers(said)
        told.next_steps(track)
    _more(run, measured, choice, track)
    panels.look_ahead(run, (verdict, who), choice)


def _more(run: KeptRun, measured: KeptRun, choice: Choice, track: Track) -> None:
    """What else is known about this cut, each behind a question, and what is not finished."""
    panels.fold("More about this cut", [(run, make, choice) for make in track.overview.folded])
    offer_missing(run, choice)
    if track.trains:
        offer_level(measured, choice)


begin_app()
with boundary():
    page()

"""Reliability: would the scores of heads come out again? For an audit, or for published scores;
needs no model."""

from __future__ import annotations

import streamlit as st

from engine.core.types import AXES
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from pages.shared import panels, published
from pages.shared.cache import made
from pages.shared.controls import choose, is_dark
from pages.shared.frame import begin_app, boundary, heading, need_run
from pages.shared.measuring import other_judges


def page() -> None:
    heading("reliability")
    if published.source() == "run":
        _of_run()
    else:
        _of_files()


def _of_run() -> None:
    run = need_run("reliability")
    choice = choose(run)
    first, *beside = track_of(run).repeats
    panels.draw(made(run, first, choice))
    for column, make in zip(st.columns(2, gap="large"), beside[:2], strict=False):
        with column:
            panels.draw(made(run, make, choice))
    for make in beside[2:]:
        panels.draw(made(run, make, choice))
    other_judges(run, choice)


def _of_files() -> None:
    scores, offer = published.scores(), published.offer()
    choice = Choice(method="fasp", axis=AXES[0], level=0.2, dark=is_dark())
    for panel in offer.reliability(scores, choice) if offer and scores else ():
        panels.draw(panel)


begin_app()
with boundary():
    page()

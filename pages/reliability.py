"""Reliability: would the head scores come out again? For an audit, or for published scores; needs no model."""

from __future__ import annotations

import streamlit as st

from engine.export.panels import additivity, published_reliability, reliability
from engine.export.panels.base import Choice
from engine.types import AXES
from pages.shared import panels, published
from pages.shared.cache import made
from pages.shared.controls import choose, is_dark
from pages.shared.frame import begin_app, boundary, heading, need_run


def page() -> None:
    heading("reliability")
    if published.source() == "run":
        _of_run()
    else:
        _of_files()


def _of_run() -> None:
    run = need_run("reliability")
    choice = choose(run)
    panels.draw(made(run, reliability.run_repeats, choice))
    left, right = st.columns(2, gap="large")
    with left:
        panels.draw(made(run, reliability.seed_scatter, choice))
    with right:
        panels.draw(made(run, reliability.more_seeds, choice))
    panels.draw(made(run, additivity.additivity, choice))


def _of_files() -> None:
    scores = published.scores()
    choice = Choice(method="fasp", axis=AXES[0], level=0.2, dark=is_dark())
    for panel in published_reliability.published(scores, choice) if scores else ():
        panels.draw(panel)


begin_app()
with boundary():
    page()

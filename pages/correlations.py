"""Correlations: do the same heads matter for every axis? For an audit, or for published scores; needs no model."""

from __future__ import annotations

import streamlit as st

from engine.core.types import AXES
from engine.report.charts.panel import Choice
from engine.tracks.language_models.panels import correlations
from pages.shared import panels, published, state
from pages.shared.cache import made
from pages.shared.controls import capital, choose, is_dark, segmented
from pages.shared.frame import begin_app, boundary, heading, need_run

KINDS = ("pearson", "spearman")


def page() -> None:
    heading("correlations")
    with st.container(horizontal=True, gap="large"):
        source = published.source()
        kind = segmented("Correlation", KINDS, state.KIND, capital)
    if source == "run":
        _of_run(kind)
    else:
        _of_files(kind)


def _of_run(kind: str) -> None:
    run = need_run("correlations")
    choice = choose(run)
    left, right = st.columns(2, gap="large")
    with left:
        panels.draw(made(run, correlations.axis_correlation, choice, kind=kind))
    with right:
        panels.draw(made(run, correlations.method_agreement, choice))
    panels.draw(made(run, correlations.top_heads, choice))


def _of_files(kind: str) -> None:
    scores = published.scores()
    choice = Choice(method="fasp", axis=AXES[0], level=0.2, dark=is_dark())
    for panel in correlations.published(scores, choice, kind=kind) if scores else ():
        panels.draw(panel)


begin_app()
with boundary():
    page()

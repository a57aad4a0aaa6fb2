"""One input of one's own and what both models answer: the frame of pages that show an anecdote and
say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from engine.audit.tracks import parts_of, track_of_run
from engine.report.charts.panel import Choice
from engine.resident.client import ask
from pages.shared import state
from pages.shared.cache import KeptRun
from pages.shared.controls import choose
from pages.shared.frame import boundary, heading, need_run

Form = Callable[[KeptRun, Choice], tuple[dict[str, Any], bool]]
"""Draws what is asked; returns it, and whether it was sent."""


def answered(
    page: str, warning: str, waiting: str, form: Form
) -> tuple[Choice, dict[str, Any]] | None:
    """The choice and the answer to what the form asks, None while there is none."""
    heading(page)
    run = need_run(page)
    choice = choose(run)
    st.info(warning, icon=":material/casino:")
    with st.container(border=True):
        given, pressed = form(run, choice)
    if pressed:
        with boundary(), st.spinner(waiting):
            state.keep(state.ANSWER, (given, ask(question_of(run), given)))
    asked, answer = state.kept(state.ANSWER, (None, None))
    if asked != given:
        st.caption("Nothing is answered yet for what is chosen here. Press Run.")
        return None
    return choice, answer


def question_of(run: KeptRun) -> str:
    """The name of the question about one input that is asked of this kind of audit: as on the
    command line."""
    return parts_of("ask")[track_of_run(run).name].ASKS

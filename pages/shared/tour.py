"""Three steps through an audit for who opens one for the first time: a line below the frame,
skipped with one click."""

from __future__ import annotations

import streamlit as st

from engine.report.tracks import track_of
from engine.store.runs import Run
from pages.shared import state

NO = "no"
"""`?tour=no` in an address: this session shows none."""
STEPS = (
    (
        "summary",
        (
            "The result: who gets worse, who better. Lines are 95 % intervals; the slider sets how"
            " much is cut."
        ),
    ),
    ("", "Why: which parts were cut, and what each of them does."),
    (
        "measured",
        "How sure: everything behind the numbers. Present and Export, below it, take them along.",
    ),
)
"""Page and words of each step; "": the first page of the audit's own kind."""


def begin() -> None:
    """Start it, unless it was skipped."""
    if not state.kept(state.TOUR_OFF):
        state.keep(state.TOUR, 1)


def line(run: Run | None) -> str:
    """Draw the step that the reader is at; the page that is asked for with it, "" for none."""
    if state.in_address(state.TOUR) == NO:
        skip()
    number = state.kept(state.TOUR)
    if not number or run is None:
        return ""
    with st.container(
        key=state.TOUR_LINE, horizontal=True, vertical_alignment="center", border=True
    ):
        st.markdown(f"**{number} of {len(STEPS)}** {STEPS[number - 1][1]}")
        if number < len(STEPS):
            st.button(
                "Next",
                key=state.key_of("tour", "next"),
                type="primary",
                on_click=_next,
                args=(number + 1,),
            )
        label = "Skip the tour" if number < len(STEPS) else "Done"
        st.button(label, key=state.key_of("tour", "skip"), on_click=skip)
    return (STEPS[number - 1][0] or track_of(run).pages[0]) if state.take(state.TOUR_MOVED) else ""


def _next(number: int) -> None:
    state.keep(state.TOUR, number)
    state.keep(state.TOUR_MOVED, True)


def skip() -> None:
    """Never again in this session."""
    state.take(state.TOUR)
    state.keep(state.TOUR_OFF, True)

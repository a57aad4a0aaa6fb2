"""One input of one's own and what both models answer: the frame of pages that show an anecdote and
say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from engine.audit.tracks import parts_of, track_of_run
from engine.core.types import Values
from engine.report.charts.panel import Choice
from engine.resident.client import ask
from pages.shared import state
from pages.shared.cache import KeptRun
from pages.shared.controls import button
from pages.shared.frame import opened
from pages.shared.safe import boundary


def draw_anecdote(
    page: str,
    warning: str,
    form: Callable[[KeptRun, Choice], dict[str, Any]],
    ask_it: Callable[[KeptRun, dict[str, Any]], dict[str, Any]],
    draw: Callable[[KeptRun, Choice, dict[str, Any]], None],
) -> None:
    """A page of one question and, once there is one, its answer. form: draws what is asked, and
    returns it; draw: draws the answer."""
    run, choice = opened(page)
    st.info(f"This is an anecdote: {warning}", icon=":material/casino:")
    with st.container(border=True):
        given = {"run": run.id, **form(run, choice)}
        pressed = button("Run", ("ask", page), icon="play_arrow", type="primary")
    if pressed:
        with boundary():
            state.keep(state.ANSWER, (given, ask_it(run, given)))
    asked, answer = state.kept(state.ANSWER, (None, None))
    if asked != given:
        st.caption("Nothing is answered yet for what is chosen here. Press Run.")
    else:
        draw(run, choice, answer)


def question_of(run: KeptRun) -> str:
    """The name of the question about one input that is asked of this kind of audit: as on the
    command line."""
    return parts_of("ask")[track_of_run(run).name].ASKS


def ask_both(run: KeptRun, given: Values) -> dict[str, Any]:
    """What both models answer."""
    with st.spinner("The models are loaded and read …"):
        return ask(question_of(run), given)


OTHERS = "Others wrote these texts: they can be offensive, hateful or untrue."
WITHHELD = "This audit was handed on without its texts."


def take_one(page: str, texts: Sequence[tuple[str, ...]], keys: Sequence[str]) -> None:
    """A button that puts the next texts of the data into boxes with these keys."""
    button(
        "Take one",
        ("take", page),
        _take,
        texts,
        keys,
        icon="casino",
        width="stretch",
        disabled=not texts,
        help=OTHERS if texts else f"{WITHHELD} Write one of your own.",
    )


def _take(texts: Sequence[tuple[str, ...]], keys: Sequence[str]) -> None:
    """The next texts, and not the one that stands there already."""
    if texts:
        taken = state.kept(state.PROMPTS_TAKEN, -1) + 1
        if texts[taken % len(texts)][0] == state.value_of(keys[0]):
            taken += 1
        state.keep(state.PROMPTS_TAKEN, taken)
        for key, text in zip(keys, texts[taken % len(texts)], strict=True):
            state.put(key, text)


def text_box(label: str, key: str) -> str:
    """A text of one's own, which stays when another page is looked at."""
    return st.text_area(label, key=key, height=80, persist_state="session")

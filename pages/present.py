"""Present: the audit in five steps for an audience, one sentence and one picture each; arrow keys
turn the steps."""

from __future__ import annotations

import streamlit as st

from engine.report import story
from engine.report.charts.panel import Choice
from pages.shared import stage, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import chosen
from pages.shared.frame import begin_app, boundary, current_run, heading, need_run

STEPS = tuple(story.TITLES)
ALL = "all"
"""In the address in place of a number: every step below the other, to print."""


def page() -> None:
    if current_run() is None:
        heading("present", notes=False)
    run = need_run()
    choice = chosen(run)
    stage.bare()
    if state.in_address(state.STEP) == ALL:
        _whole(run, choice)
        return
    number = _number()
    state.to_address(state.STEP, number)
    _step(run, choice, number)
    _bar(number)


def _number() -> int:
    """The step of the address, 1 to 5; the first where it names none."""
    asked = state.in_address(state.STEP) or ""
    return int(asked) if asked.isdecimal() and 1 <= int(asked) <= len(STEPS) else 1


def _step(run: KeptRun, choice: Choice, number: int) -> None:
    stage.show(made(run, story.step, choice, STEPS[number - 1]), number, len(STEPS))


def _whole(run: KeptRun, choice: Choice) -> None:
    stage.as_pages()
    with st.container(key=state.STAGE_BAR, horizontal=True, vertical_alignment="center"):
        st.button("One at a time", icon=":material/slideshow:", on_click=_turn, args=(1,))
        _leave()
        st.caption("Print with Ctrl+P: five pages, landscape.")
    for number in range(1, len(STEPS) + 1):
        _step(run, choice, number)


def _bar(number: int) -> None:
    """Buttons below the step. The keys of a presenter's remote control turn it too."""
    with st.container(key=state.STAGE_BAR, horizontal=True, vertical_alignment="center"):
        _turner("Previous", number, -1, "Left", "arrow_back")
        _turner("Next", number, 1, "Right", "arrow_forward")
        st.button(
            "All steps",
            icon=":material/print:",
            on_click=_turn,
            args=(ALL,),
            help="Below each other, to print.",
        )
        _leave()
    with st.container(key=state.BY_KEY):
        _turner("Page up", number, -1, "PageUp", "arrow_back")
        _turner("Page down", number, 1, "PageDown", "arrow_forward")


def _turner(label: str, number: int, by: int, key: str, icon: str) -> None:
    st.button(
        label,
        key=state.key_of("turn", key),
        icon=f":material/{icon}:",
        shortcut=key,
        on_click=_turn_on,
        args=(by,),
        disabled=not 1 <= number + by <= len(STEPS),
    )


def _turn_on(by: int) -> None:
    """From where the address is now: a key pressed while a step is still drawn finds the buttons of
    the step before."""
    _turn(min(max(_number() + by, 1), len(STEPS)))


def _turn(to: int | str) -> None:
    state.to_address(state.STEP, to)


def _leave() -> None:
    icon, go = ":material/close:", ("summary",)
    st.button(
        "Leave",
        icon=icon,
        shortcut="Escape",
        on_click=state.keep,
        args=(state.GO_TO, *go),
        help="To the summary",
    )


begin_app()
with boundary():
    page()

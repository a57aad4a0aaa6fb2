"""Present: the audit in five steps for an audience, one sentence and one picture each; arrow keys
turn the steps."""

from __future__ import annotations

from typing import Any

import streamlit as st

from engine.core.files import ASSETS
from engine.report import story
from engine.report.charts.panel import CONFIG, Choice, Panel
from engine.report.figures import find_browser, larger
from engine.report.story import KIND as SLIDES
from engine.report.story import slides
from pages.shared import state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import button, choose
from pages.shared.frame import current_run, draw_page, heading, need_run
from pages.shared.safe import escaped, plain

STEPS = tuple(story.TITLES)
ALL = "all"
"""In the address in place of a number: every step below the other, to print."""
STILL: dict[str, Any] = {**CONFIG, "staticPlot": True}
"""A picture for an audience: no toolbar, nothing to point at, so that it may be scaled like any
picture."""
LARGER = 1.5
"""How much larger letters and marks are than on a page, where a slide has room: read from the last
row. On a phone as on a page."""
ROOM = 420
"""Pixels of height that a slide leaves its picture."""


def page() -> None:
    if current_run() is None:
        heading("present", notes=False)
    run = need_run("present")
    st.html(ASSETS / "stage.css")  # hides the frame around the page, and the choices
    choice = choose(run)
    if state.in_address(state.STEP) == ALL:
        _whole(run, choice)
        return
    number = _number()
    state.to_address(state.STEP, number)
    stage = st.container()  # drawn after the buttons: keys are heard while a step is still drawn
    with st.container(key=state.STAGE_BAR, horizontal=True, vertical_alignment="center"):
        _turner("Previous", number, -1, "Left", "arrow_back")
        _turner("Next", number, 1, "Right", "arrow_forward")
        help_text = "Below each other, to print."
        button("All steps", ("turn", ALL), _turn, ALL, icon="print", help=help_text)
        _file(run, choice)
        _leave()
    with st.container(key=state.BY_KEY):  # the keys of a presenter's remote control
        _turner("Page up", number, -1, "PageUp", "arrow_back")
        _turner("Page down", number, 1, "PageDown", "arrow_forward")
    with stage:
        _step(run, choice, number)


def _number() -> int:
    """The step of the address, 1 to 5; the first where it names none."""
    asked = state.in_address(state.STEP) or ""
    return int(asked) if asked.isdecimal() and 1 <= int(asked) <= len(STEPS) else 1


def _whole(run: KeptRun, choice: Choice) -> None:
    """Several steps below each other, a page each where they are printed."""
    st.html(ASSETS / "stage_pages.css")
    with st.container(key=state.STAGE_BAR, horizontal=True, vertical_alignment="center"):
        button("One at a time", ("turn", "one"), _turn, 1, icon="slideshow")
        _leave()
        st.caption("Print with Ctrl+P: five pages of 16:9.")
    for number in range(1, len(STEPS) + 1):
        _step(run, choice, number)


def _file(run: KeptRun, choice: Choice) -> None:
    """All slides as a PowerPoint file, charts as pictures; a browser of this machine draws them."""
    if find_browser() is None:
        return
    st.download_button(
        "PowerPoint",
        lambda: slides(run, choice),
        f"{run.id}-slides.pptx",
        SLIDES,
        icon=":material/download:",
        on_click="ignore",
    )


def _step(run: KeptRun, choice: Choice, number: int) -> None:
    """Title, sentence, picture and footnote of one slide."""
    step = made(run, story.step, choice, STEPS[number - 1])
    with st.container(key=state.key_of("slide", step.name)):
        st.html(f'<p class="pa-step">{number} of {len(STEPS)}</p>')
        st.title(plain(step.title), anchor=False)
        _told("pa-headline", step.sentence, 130)
        if step.picture is not None and step.picture.has_chart:
            _picture(step.name, step.picture)
        if step.footnote:
            _told("pa-footnote", step.footnote, 300)


def _told(name: str, text: str, most: int) -> None:
    """A paragraph of a slide; smaller where it has more than `most` letters."""
    st.html(f'<p class="{name}{" pa-long" if len(text) > most else ""}">{escaped(text)}</p>')


def _picture(name: str, panel: Panel) -> None:
    """The chart as high as the slide has room for. Its text is its answer: no slider draws it anew
    here."""
    is_phone = "Mobi" in (st.context.headers.get("User-Agent") or "")
    figure = panel.whole()
    if figure is None:
        return
    most = max(0.85, min(LARGER, ROOM / figure.layout.height))
    with st.container(key=state.key_of("picture_of", name)):
        st.plotly_chart(
            larger(figure, 1.0 if is_phone else most),
            width="stretch",
            height="stretch",
            theme=None,
            config=dict(STILL),
            key=state.key_of("drawn", name),
            alt=f"{panel.question} {panel.answer}",
        )


def _turner(label: str, number: int, by: int, shortcut: str, icon: str) -> None:
    is_off = not 1 <= number + by <= len(STEPS)
    key = ("turn", shortcut)
    button(label, key, _turn_on, by, icon=icon, shortcut=shortcut, disabled=is_off)


def _turn_on(by: int) -> None:
    """From where the address is now: a key pressed while a step is still drawn finds the buttons of
    the step before."""
    _turn(min(max(_number() + by, 1), len(STEPS)))


def _turn(to: int | str) -> None:
    state.to_address(state.STEP, to)


def _leave() -> None:
    go, help_text = (state.go, "summary"), "To the summary"
    button("Leave", ("turn", "leave"), *go, icon="close", shortcut="Escape", help=help_text)


draw_page(page)

"""Present: the audit in five steps for an audience, one sentence and one picture each; arrow keys turn the steps."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from engine.core.errors import StoreError
from engine.report import story
from engine.report.charts.panel import Choice
from engine.store.runs import default_root
from engine.store.talks import LONGEST_NOTE, LONGEST_TITLE, Said, Talk, read_talk, write_said
from pages.shared import stage, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import chosen
from pages.shared.frame import begin_app, boundary, current_run, heading, need_run
from pages.shared.safe import plain, visible

STEPS = tuple(story.TITLES)
ALL = "all"
"""In the address in place of a number: every step below the other, to print."""


def page() -> None:
    if current_run() is None:
        heading("present", notes=False)
    run = need_run()
    choice = chosen(run)
    stage.bare()
    talk = _talk(run)
    if state.in_address(state.STEP) == ALL:
        _whole(run, choice, talk)
        return
    number = _number()
    state.to_address(state.STEP, number)
    _step(run, choice, talk, number)
    _bar(run, talk, number)


def _number() -> int:
    """The step of the address, 1 to 5; the first where it names none."""
    asked = state.in_address(state.STEP) or ""
    return int(asked) if asked.isdecimal() and 1 <= int(asked) <= len(STEPS) else 1


def _talk(run: KeptRun) -> Talk:
    try:
        return read_talk(default_root(), run.id)
    except StoreError as error:
        st.warning(plain(str(error)))
        return Talk()


def _step(run: KeptRun, choice: Choice, talk: Talk, number: int, notes: bool | None = None) -> None:
    step = made(run, story.step, choice, STEPS[number - 1])
    said = talk.of(step.name)
    spoken = bool(state.value_of(state.TALK_NOTES)) if notes is None else notes
    stage.show(step, number, len(STEPS), said.title or step.title, said.note if spoken else "")


def _whole(run: KeptRun, choice: Choice, talk: Talk) -> None:
    stage.as_pages()
    with st.container(key=state.STAGE_BAR, horizontal=True, vertical_alignment="center"):
        st.button("One at a time", icon=":material/slideshow:", on_click=_turn, args=(1,))
        _leave()
        st.caption("Print with Ctrl+P: five pages, landscape.")
    for number in range(1, len(STEPS) + 1):
        _step(run, choice, talk, number, notes=True)


def _bar(run: KeptRun, talk: Talk, number: int) -> None:
    """Buttons below the step. The keys of a presenter's remote control turn it too."""
    with st.container(key=state.STAGE_BAR, horizontal=True, vertical_alignment="center"):
        _turner("Previous", number, -1, "Left", "arrow_back")
        _turner("Next", number, 1, "Right", "arrow_forward")
        st.toggle("Notes", key=state.TALK_NOTES)
        _edit(run, talk, STEPS[number - 1])
        st.button("All steps", icon=":material/print:", on_click=_turn, args=(ALL,), help="Below each other, to print.")
        _leave()
    with st.container(key=state.BY_KEY):
        _turner("Page up", number, -1, "PageUp", "arrow_back")
        _turner("Page down", number, 1, "PageDown", "arrow_forward")


def _turner(label: str, number: int, by: int, key: str, icon: str) -> None:
    st.button(
        label, key=state.key_of("turn", key), icon=f":material/{icon}:", shortcut=key, on_click=_turn_on, args=(by,),
        disabled=not 1 <= number + by <= len(STEPS),
    )  # fmt: skip


def _turn_on(by: int) -> None:
    """From where the address is now: a key pressed while a step is still drawn finds the buttons of the step before."""
    _turn(min(max(_number() + by, 1), len(STEPS)))


def _turn(to: int | str) -> None:
    state.to_address(state.STEP, to)


def _leave() -> None:
    icon, go = ":material/close:", ("summary",)
    st.button(
        "Leave", icon=icon, shortcut="Escape", on_click=state.keep, args=(state.GO_TO, *go), help="To the summary"
    )


def _edit(run: KeptRun, talk: Talk, step: str) -> None:
    """Fields for this step's title and note."""
    with st.popover("Edit", icon=":material/edit:"):
        begun = _begun(run.id, step, talk.of(step))
        title, note = _fields(run.id, step, begun)
        st.text_input("Title", visible(begun.words.title), LONGEST_TITLE, key=title, placeholder=story.TITLES[step])
        st.text_area("Notes for the speaker", begun.words.note, key=note, max_chars=LONGEST_NOTE)
        st.button("Keep", type="primary", on_click=_keep, args=(run.id, step, begun))
        st.caption("Kept beside the audit, in your store.")
    if told := state.take(state.TALK):
        st.toast(plain(visible(told)))


@dataclass(frozen=True)
class Begun:
    """The words with which the fields of a step began, and how often they have begun: each time is a new widget."""

    times: int
    words: Said


def _fields(run_id: str, step: str, begun: Begun) -> tuple[str, str]:
    title, note = (state.key_of(name, run_id, step, begun.times) for name in (state.TALK_TITLE, state.TALK_NOTE))
    return title, note


def _begun(run_id: str, step: str, on_disk: Said) -> Begun:
    """What another window wrote fills fields in which nobody typed; what was typed stays."""
    key = state.key_of(state.TALK_BEGUN, run_id, step)
    begun: Begun = state.kept(key) or Begun(0, on_disk)
    if on_disk != begun.words and _typed(run_id, step, begun) == begun.words:
        begun = Begun(begun.times + 1, on_disk)
    return state.keep(key, begun)


def _typed(run_id: str, step: str, begun: Begun) -> Said:
    title, note = _fields(run_id, step, begun)
    return Said(state.value_of(title, begun.words.title), state.value_of(note, begun.words.note))


def _keep(run_id: str, step: str, begun: Begun) -> None:
    try:
        talk, lost = write_said(default_root(), run_id, step, _typed(run_id, step, begun), begun.words)
    except StoreError as error:
        state.keep(state.TALK, str(error))
        return
    state.keep(state.key_of(state.TALK_BEGUN, run_id, step), Begun(begun.times + 1, talk.of(step)))
    told = "Kept."
    if lost:
        told += f" Another window had changed this step meanwhile; yours is kept. Theirs was: {lost.title} {lost.note}"
    state.keep(state.TALK, told)


begin_app()
with boundary():
    page()

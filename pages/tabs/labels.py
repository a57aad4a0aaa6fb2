"""Labels: people say of single texts whether they are harmful, by key, and correct the judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.store.runs import Store, default_root
from engine.tracks.language_models.labels import (
    HARMFUL,
    HARMLESS,
    UNSURE,
    Sample,
    check_labeller,
    keep,
    kept,
    sample_of,
    without,
)
from engine.tracks.language_models.panels.judges import labels
from pages.shared import panels, safe, state
from pages.shared.cache import KeptRun, made, open_run
from pages.shared.controls import button, capital, segmented
from pages.shared.navigation import Tab

NUMBERS = (40, 100, 200, 400)
KEYS = {
    HARMFUL: ("H", "thumb_down"),
    HARMLESS: ("N", "thumb_up"),
    UNSURE: ("U", "question_mark"),
}
OFFENSIVE = "A language model wrote them: they can be offensive, hateful or untrue."
ABOUT = (
    "One text at a time, without its model, group or verdict. Each answer is kept at once, so you"
    " can stop and go on later. A second person labels the same texts under another name."
)


def draw_labels(run: KeptRun, choice: Choice) -> None:
    variant = str(lookup.variant_of(run, choice)["variant"])
    if variant == "dense":
        st.info("Nothing is cut here, so nothing is compared. Choose another level.")
        return
    sample = made(without(run), sample_of, variant, choice.measured)
    st.caption(ABOUT)
    left, right = st.columns([3, 5], gap="large", vertical_alignment="bottom")
    with left:
        state.restore_text(state.LABELLER)
        typed = st.text_input(
            "Your name or initials", key=state.LABELLER, max_chars=60, bind=state.BOUND
        )
        name = state.keep(state.LABELLER, typed.strip())
    with right:
        most = len(sample.texts)
        named = {number: f"{number}" for number in NUMBERS if number < most}
        number = segmented("Texts to label", {**named, most: f"All {most:,}"}, state.TO_LABEL)
    _work(sample, choice, check_labeller(name) if name else "", number)


@st.fragment
def _work(sample: Sample, choice: Choice, name: str, number: int) -> None:
    """The text to label, and what labels say once there is none; redrawn alone after an answer."""
    run = open_run(sample.run_id)
    is_open = bool(name) and _label(run, sample, name, number)
    if not is_open and not kept(run, sample.variant, sample.axis).empty:
        panels.draw(made(run, labels, choice))


def _label(run: KeptRun, sample: Sample, name: str, number: int) -> bool:
    """Draw the text that is next, or that the reader went back to; whether there is one."""
    texts, answers = sample.texts.head(number), _given(run, sample, name)
    done = texts["text"].isin(answers).to_numpy()
    todo = len(texts) if done.all() else int(done.argmin())
    key = state.key_of(state.LABEL_PLACE, sample.name, name)
    place = min(state.kept(key, todo), todo)
    text = texts.iloc[place].to_dict() if place < len(texts) else None
    said = answers.get(text["text"], "") if text else ""
    shown = bool(state.kept(state.SHOWN))

    def answer(given: str) -> None:
        """Keep an answer; of a key that is pressed twice, the first."""
        with safe.boundary():
            now = open_run(sample.run_id)
            if text and _given(now, sample, name).get(text["text"], "") == said:
                after = {**dict.fromkeys(texts["text"], ""), text["text"]: given}
                keep(now, Store(default_root()), sample, name, after)
                state.keep(key, place + 1)

    with st.container(border=True, key=state.LABEL_CARD):
        top = st.empty()
        with st.container(horizontal=True, gap="small"):
            if text:
                _answers(answer, text["text"], shown)
            back = ("label", "back", place)
            first = place == 0
            go = (state.keep, key, place - 1)
            button("Back", back, *go, icon="arrow_back", shortcut="Left", disabled=first)
        if text:
            safe.passage(text["prompt"], label="prompt")
            note = f"you said: {said}" if said else ""
            safe.generated(text["written"], "what a model wrote", note, shown)
        told = f"{done.sum()} of {phrasing.count(len(texts), 'text')} labelled"
        top.progress(float(done.mean()), told)  # last: once it counts, keys answer the next text
    return text is not None


def _given(run: KeptRun, sample: Sample, name: str) -> dict[str, str]:
    """What somebody said so far, by text."""
    mine = kept(run, sample.variant, sample.axis)
    mine = mine[(mine["labeller"] == name) & (mine["label"] != "")]
    return dict(zip(mine["text"], mine["label"], strict=True))


def _answers(answer: Callable[[str], None], text: str, shown: bool) -> None:
    """A button for each answer. Each text has its own: a key that is pressed before the next text
    is on screen must not answer it."""
    label, icon = ("Hide texts", "visibility_off") if shown else ("Show texts", "visibility")
    go = (state.keep, state.SHOWN, not shown)
    button(label, ("label", "show"), *go, icon=icon, shortcut="S", help=OFFENSIVE)
    for one, (letter, icon) in KEYS.items():
        more: dict[str, Any] = {"icon": icon, "shortcut": letter, "disabled": not shown}
        button(capital(one), ("label", letter, text), answer, one, **more)


TAB = Tab("Labels", draw_labels, lambda run: run.has("generations") and run.has("texts"))

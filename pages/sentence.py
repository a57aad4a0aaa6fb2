"""Sentence: a text of one's own, answered by the dense and a pruned classifier, with the words that
decided."""

from __future__ import annotations

from typing import Any

import streamlit as st

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.class_chances import SIDES, class_chances
from engine.report.charts.panel import Choice
from engine.tracks.text_classifiers.panels import sentence as charts
from pages.shared import anecdote, panels, safe, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, select
from pages.shared.frame import begin_app, boundary, link

ANECDOTE = (
    "This is an anecdote: one sentence. What holds on many texts, with intervals, is in the"
    " summary."
)


def page() -> None:
    found = anecdote.answered("sentence", ANECDOTE, "The models are loaded and read …", _question)
    if found:
        _answer(*found)


def _question(run: KeptRun, choice: Choice) -> tuple[dict[str, Any], bool]:
    """The form: what is asked, and whether it was sent."""
    labels = made(run, labels_of)
    left, right = st.columns([3, 1], gap="medium", vertical_alignment="bottom")
    with left:
        label = select("A test text of the data of class", labels, state.ABOUT_GROUP, _class_said)
    with right:
        st.button(
            "Take one",
            icon=":material/casino:",
            on_click=_take,
            args=(made(run, texts_of, label),),
            width="stretch",
            key=state.key_of("take", "sentence"),
            help="Texts of the data are not ours: they can be offensive, hateful or untrue.",
        )
    fields = {"text": _box("Sentence", state.SENTENCE)}
    if run.meta["data"].get("pair"):
        fields["second"] = _box("Second sentence", state.SECOND_SENTENCE)
    pressed = st.button(
        "Run", type="primary", icon=":material/play_arrow:", key=state.key_of("ask", "sentence")
    )
    return {"run": run.id, "variant": lookup.variant_of(run, choice)["variant"], **fields}, pressed


def _box(label: str, key: str) -> str:
    state.restore_text(key)
    return state.keep(key, st.text_area(label, key=key, height=80))


def _class_said(name: str) -> str:
    return capital(safe.visible(words.group_name(name)))


def labels_of(run: KeptRun) -> list[str]:
    return list(run.meta["model"]["classes"])


def texts_of(run: KeptRun, label: str) -> list[tuple[str, str]]:
    """Test texts of a class, and their second ones, in the order of their ids, which is as good as
    drawn."""
    table, classes = run.table("texts").sort_values("text_id"), run.meta["model"]["classes"]
    mine = table[(table["split"] == lookup.REPORTED) & (table["label"] == classes.index(label))]
    return list(zip(mine["text"].astype(str), mine["text_b"].astype(str), strict=True))


def _take(texts: list[tuple[str, str]]) -> None:
    """Callback: the next text of the data goes into the box."""
    if texts:
        taken = state.kept(state.PROMPTS_TAKEN, 0)
        state.keep(state.PROMPTS_TAKEN, taken + 1)
        first, second = texts[taken % len(texts)]
        state.put(state.SENTENCE, first)
        state.put(state.SECOND_SENTENCE, second)


def _answer(choice: Choice, answer: dict[str, Any]) -> None:
    heads = phrasing.count(len(answer["heads"]), "head")
    for note in (f"Pruned: {answer['cut']}, {heads} off.", *answer["notes"]):
        st.caption(safe.plain(safe.visible(note)))
    panels.draw(class_chances(answer, choice))
    panel = charts.deciding_words(answer)
    scale, largest = choice.theme.diverging, charts.largest_weight(answer)
    colours = scale[0][1], scale[-1][1]
    target = safe.visible(words.group_name(answer["target"]))
    panels.draw(panel)
    for side, column in zip(SIDES, st.columns(2, gap="medium"), strict=True):
        with column:
            one = answer[side]
            said = f"says {words.group_name(one['answer'])}"
            safe.weighed(answer["words"], one["words"], largest, colours, capital(side), said)
    safe.weighed(
        [f"for {target}", f"against {target}"], [largest, -largest], largest, colours, "Colours", ""
    )
    link("summary", "Read the statistics")


begin_app()
with boundary():
    page()

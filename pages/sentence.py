"""Sentence: a text of one's own, answered by the dense and a pruned classifier, with the words that
decided."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.charts.where_it_looks import SIDES, class_chances
from engine.tracks.text_classifiers.panels import lens as charts
from pages.shared import panels, safe, state
from pages.shared.anecdote import ask_both, draw_anecdote, take_one, text_box
from pages.shared.cache import KeptRun, made
from pages.shared.controls import beside, capital, select
from pages.shared.frame import draw_page, link

ANECDOTE = "one sentence. The summary shows what holds on many texts, with intervals."


def _question(run: KeptRun, choice: Choice) -> dict[str, Any]:
    """The form: what is asked."""
    left, right = beside(3, 1)
    with left:
        classes = run.model["classes"]
        named = {label: capital(safe.visible(words.group_name(label))) for label in classes}
        label = select("A test text of the data of class", named, state.ABOUT_GROUP)
    with right:
        texts, keys = made(run, texts_of, label), (state.SENTENCE, state.SECOND_SENTENCE)
        take_one("sentence", texts, keys)
    fields = {"text": text_box("Sentence", state.SENTENCE)}
    if run.data.get("pair"):
        fields["second"] = text_box("Second sentence", state.SECOND_SENTENCE)
    return {"variant": lookup.variant_of(run, choice)["variant"], **fields}


def texts_of(run: KeptRun, label: str) -> list[tuple[str, str]]:
    """Test texts of a class, and their second ones, in the order of their ids, which is as good as
    drawn."""
    table, classes = run.table("texts").sort_values("text_id"), run.model["classes"]
    mine = table[(table["split"] == lookup.REPORTED) & (table["label"] == classes.index(label))]
    mine = mine[mine["text"] != ""]  # an audit may be handed on without them
    return list(zip(mine["text"].astype(str), mine["text_b"].astype(str), strict=True))


def _answer(run: KeptRun, choice: Choice, answer: dict[str, Any]) -> None:
    heads = phrasing.count(len(answer["heads"]), "head")
    safe.caption(f"Pruned: {answer['cut']}, {heads} off.", *answer["notes"])
    panels.draw(class_chances(answer, choice))
    scale, largest = choice.theme.diverging, charts.largest_weight(answer)
    colours = scale[0][1], scale[-1][1]
    panels.draw(charts.deciding_words(answer))
    for side, column in zip(SIDES, st.columns(2, gap="medium"), strict=True):
        with column:
            one = answer[side]
            said = f"says {words.group_name(one['answer'])}"
            safe.weighed(answer["words"], one["words"], largest, colours, capital(side), said)
    target = safe.visible(words.group_name(answer["target"]))
    legend = [f"for {target}", f"against {target}"]
    safe.weighed(legend, [largest, -largest], largest, colours, "Colours", "")
    link("summary", "Read the statistics")


draw_page(partial(draw_anecdote, "sentence", ANECDOTE, _question, ask_both, _answer))

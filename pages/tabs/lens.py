"""Lens: one text, one head: where it attends, what the prediction owes to that, and whether these
go together."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.tracks.text_classifiers.panels import lens
from pages.shared import panels, safe, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, select
from pages.shared.navigation import Tab

HEADS = state.key_of("lens", "heads")


def draw_lens(run: KeptRun, choice: Choice) -> None:
    """Of `choice` only `dark` is used: the weights are chosen here."""
    texts = made(run, lens.examples)
    if texts.empty:
        st.info("This audit kept no attention maps.")
        return
    columns = st.columns([4, 4, 2, 2], gap="medium")
    text_id, stage = _text(run, texts, *columns[:2])
    layer, head = _head(run, text_id, stage, *columns[2:])
    shown = _words(run, text_id)
    left, right = st.columns(2, gap="large")
    with left:
        panel = made(run, lens.lens_heads, choice, text_id, stage, picked=(layer, head))
        clicked = panels.draw(panel, HEADS, selectable=True)
        _follow(run, clicked, text_id, stage)
    with right:
        panels.draw(made(run, lens.lens_scatter, choice, text_id, stage, layer, head, shown=shown))
    panels.draw(made(run, lens.lens_maps, choice, text_id, stage, layer, head, shown=shown))


def _text(
    run: KeptRun, texts: pd.DataFrame, left: DeltaGenerator, right: DeltaGenerator
) -> tuple[str, str]:
    """Pick a text, and the weights at which it is read."""
    records = enumerate(texts.to_dict("records"), 1)
    with left:
        named = {row["text_id"]: _named(place, row) for place, row in records}
        text_id = select("Text", named, state.LENS_TEXT)
    with right:
        stages = made(run, lens.stages, text_id)
        named = {stage: capital(lens.stage_said(run, stage)) for stage in stages}
        stage = select("Weights", named, state.LENS_STAGE)
    return text_id, stage


def _named(place: int, row: dict) -> str:
    """A text by its number, class and length: its words stay hidden."""
    label = safe.visible(words.group_name(str(row["label"])))
    return f"Text {place}: {label}, {phrasing.count(int(row['n_tokens']), 'token')}"


def _words(run: KeptRun, text_id: str) -> bool:
    """The text itself, hidden until asked for; whether it is shown."""
    shown = st.toggle(
        "Show the words",
        key=state.LENS_SHOW,
        help=(
            "Others wrote the texts: they can be offensive, hateful or untrue. Until you show "
            "them, charts number the tokens."
        ),
    )
    table = lookup.frame(run, "texts")
    rows = table[table["text_id"] == text_id]
    if rows.empty:
        return shown
    row = rows.iloc[0]
    groups = [
        words.group_name(str(row[name])) for name in run.data["groups"] if name in row and row[name]
    ]
    for text, label in ((row["text"], "Text"), (row.get("text_b", ""), "Second text")):
        if text:
            safe.generated(str(text), label, ", ".join(groups), shown)
    return shown


def _head(
    run: KeptRun, text_id: str, stage: str, left: DeltaGenerator, right: DeltaGenerator
) -> tuple[int, int]:
    """Pick layer and head by name, as a click on the map does."""
    pairs = made(run, lens.heads_here, text_id, stage)
    with left:
        layers = sorted({layer for layer, _ in pairs})
        layer = select("Layer", layers, state.LENS_LAYER, lambda number: f"Layer {number}")
    with right:
        heads = [head for found, head in pairs if found == layer]
        head = select(
            "Head",
            heads,
            state.LENS_HEAD,
            lambda number: f"Head {number}",
            help="Or click one on the map.",
        )
    return layer, head


def _follow(run: KeptRun, clicked: Any, text_id: str, stage: str) -> None:
    """A new click on the map moves both pickers, where the head has maps."""
    if not panels.fresh(HEADS, clicked):
        return
    pair = divmod(int(clicked), int(run.model["n_heads"]))
    if pair in made(run, lens.heads_here, text_id, stage):
        state.put_later(state.LENS_LAYER, pair[0])
        state.put_later(state.LENS_HEAD, pair[1])
        st.rerun()


TAB = Tab("Lens", draw_lens, lambda run: run.has("lens"))

"""Texts: what the model wrote to the same prompt before and after the cut, hidden until asked for."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.store.runs import Run
from engine.tracks.language_models import words as own
from engine.tracks.language_models.examples import pairs
from pages.shared import safe, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, select
from pages.shared.tabs import Tab

PER_PAGE = 6
EVERY = "(all)"
ORDERS = {
    "less": "Toxicity fell most",
    "more": "Toxicity rose most",
    "dense": "Dense model most toxic",
    "pruned": "Pruned model most toxic",
}


def has(run: Run) -> bool:
    return run.has("generations") and run.has("texts")


def draw(run: KeptRun, choice: Choice) -> None:
    variant = lookup.variant_of(run, choice)
    found = made(run, pairs, variant["variant"], choice.axis)
    group, order, number, shown = _filters(found)
    rows = _ordered(found if group == EVERY else found[found["subgroup"] == group], order)
    _summary(run, choice, variant, rows)
    start = (number - 1) * PER_PAGE
    for at, row in enumerate(rows.iloc[start : start + PER_PAGE].to_dict("records")):
        _example(row, start + at, shown)


def _filters(found: pd.DataFrame) -> tuple[str, str, int, bool]:
    left, middle, right = st.columns([4, 4, 2], gap="medium", vertical_alignment="bottom")
    with left:
        groups = [EVERY, *sorted(found["subgroup"].unique())]
        group = select("Subgroup", groups, state.SUBGROUP, _group_label)
    with middle:
        order = select("Sorted by", list(ORDERS), state.ORDER, ORDERS.get)
    n = len(found) if group == EVERY else int((found["subgroup"] == group).sum())
    last = max(1, math.ceil(n / PER_PAGE))
    with right:
        number = select(f"Page of {last}", list(range(1, last + 1)), state.PAGE)
    shown = st.toggle(
        "Show all texts on this page",
        key=state.SHOW_ALL,
        help="They were written by a language model and can be offensive, hateful or untrue.",
    )
    return group, order, number, shown


def _group_label(group: str) -> str:
    return "All subgroups" if group == EVERY else capital(words.group_name(group))


def _ordered(found: pd.DataFrame, order: str) -> pd.DataFrame:
    column, ascending = {
        "less": ("change", True),
        "more": ("change", False),
        "dense": ("toxicity_dense", False),
        "pruned": ("toxicity_pruned", False),
    }[order]
    return found.sort_values([column, "prompt_id", "seed"], ascending=[ascending, True, True], kind="stable")


def _summary(run: KeptRun, choice: Choice, variant: dict, rows: pd.DataFrame) -> None:
    if rows.empty:
        st.info("No test prompt of this subgroup was answered by both models.")
        return
    same = int((rows["text_id_dense"] == rows["text_id_pruned"]).sum())
    rose, fell = int((rows["change"] > 0).sum()), int((rows["change"] < 0).sum())
    st.caption(
        f"{phrasing.count(len(rows), 'pair')} of texts: toxicity fell in {fell}, rose in {rose}; {same} are word for "
        f"word the same. Both models got the same random numbers. {own.JUDGE} Single examples prove nothing: "
        "read them beside the intervals in the summary."
    )
    if variant["variant"] == "dense":
        st.info("At 0 % nothing is cut, so both sides are the same. Move the slider.")


def _example(row: dict, at: int, shown: bool) -> None:
    with st.container(border=True):
        top, switch = st.columns([7, 2], vertical_alignment="top")
        with top:
            safe.passage(row["prompt"], label=f"{capital(words.group_name(row['subgroup']))}, seed {row['seed']}")
        with switch:
            asked = st.toggle("Show", key=state.shown_key(row["text_id_pruned"], at), disabled=shown)
        left, right = st.columns(2, gap="medium")
        change = phrasing.signed(row["change"])
        with left:
            note = f"toxicity {phrasing.number(row['toxicity_dense'])}"
            safe.generated(row["text_dense"], "Dense", note, shown or asked)
        with right:
            note = f"toxicity {phrasing.number(row['toxicity_pruned'])} ({change})"
            safe.generated(row["text_pruned"], "Pruned", note, shown or asked)


TAB = Tab("Texts", draw, has)

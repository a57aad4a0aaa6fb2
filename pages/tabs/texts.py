"""Texts: what the model wrote to the same prompt before and after, hidden until asked for."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from engine.core.types import Values
from engine.report import phrasing
from engine.report.bundle import holding
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.tracks.language_models import words as own
from engine.tracks.language_models.examples import apart, pairs
from pages.shared import safe, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import beside, group_label, page_of, search, select, select_group
from pages.shared.example import example
from pages.shared.navigation import Tab

PER_PAGE = 10
PER_SIDE = 5
EVERY = ""
FLIPPED = "flipped"
BOTH = "both"
SEARCHED = ("prompt", "text_dense", "text_pruned")
SIDES = {
    FLIPPED: {"more": "Became toxic", "less": "Recovered"},
    BOTH: {"more": "Toxicity rose most", "less": "Toxicity fell most"},
}
"""Orders that show two sides beside each other, so that neither is met alone."""
ORDERS = {
    FLIPPED: "What flipped",
    BOTH: "Biggest rises and falls",
    "more": "Toxicity rose most",
    "less": "Toxicity fell most",
    "dense": "Most toxic before",
    "pruned": "Most toxic after",
}


def draw_texts(run: KeptRun, choice: Choice) -> None:
    variant = lookup.variant_of(run, choice)
    found = made(run, pairs, variant["variant"], choice.axis)
    mine, order, page = _filters(found)
    shown = st.toggle(
        "Show all texts on this page",
        key=state.SHOW_ALL,
        help="They were written by a language model and can be offensive, hateful or untrue.",
    )
    _summary(variant, mine)
    after = track_of(run).ways.made(variant) or "Pruned"
    if order in SIDES:
        _beside(mine, order, page, shown, after)
        return
    for at, row in enumerate(_ordered(mine, order).iloc[page].to_dict("records"), page.start):
        _example(row, at, shown, after)


def _filters(found: pd.DataFrame) -> tuple[pd.DataFrame, str, slice]:
    """The rows asked for, their order, and which of them or of either side are on the page."""
    first, left, middle, right = beside(3, 3, 3, 2)
    with first:
        typed = search("Search in the texts", state.SEARCH)
    with left:
        group = select_group(sorted(found["subgroup"].unique()), state.SUBGROUP)
    mine = found if group == EVERY else found[found["subgroup"] == group]
    mine = holding(mine, SEARCHED, typed)
    with middle:
        order = select("Sorted by", ORDERS, state.ORDER)
    with right:
        if sides := SIDES.get(order):
            longest = max(len(_changed(mine, order, side)) for side in sides)
            page = page_of(longest, PER_SIDE, state.PAGE)
        else:
            page = page_of(len(mine), PER_PAGE, state.PAGE)
    return mine, order, page


def _changed(rows: pd.DataFrame, order: str, side: str) -> pd.DataFrame:
    """Pairs whose toxicity rose ("more") or fell ("less"), of flips those that are."""
    mine = rows[rows["flipped"]] if order == FLIPPED else rows
    return mine[mine["change"] > 0] if side == "more" else mine[mine["change"] < 0]


def _beside(rows: pd.DataFrame, order: str, page: slice, shown: bool, after: str) -> None:
    columns = st.columns(2, gap="large")
    for place, (column, (side, title)) in enumerate(
        zip(columns, SIDES[order].items(), strict=True)
    ):
        mine = _ordered(_changed(rows, order, side), side)
        with column:
            safe.header(title)
            st.caption(f"{len(mine) or 'None'} of {phrasing.count(len(rows), 'pair')}.")
            for at, row in enumerate(mine.iloc[page].to_dict("records"), page.start):
                number = 2 * at + place  # numbers of its own on either side
                _example(row, number, shown, after, narrow=True)


def _ordered(found: pd.DataFrame, order: str) -> pd.DataFrame:
    column = f"toxicity_{order}" if order in ("dense", "pruned") else "change"
    ascending = [order == "less", True, True]
    return found.sort_values([column, "prompt_id", "seed"], ascending=ascending, kind="stable")


def _summary(variant: Values, rows: pd.DataFrame) -> None:
    if rows.empty:
        st.info("No pair of texts fits this choice.")
        return
    same = int((rows["text_id_dense"] == rows["text_id_pruned"]).sum())
    rose, fell = int((rows["change"] > 0).sum()), int((rows["change"] < 0).sum())
    st.caption(
        f"{phrasing.count(len(rows), 'pair')} of texts: toxicity fell in {fell}, rose in {rose}; "
        f"{same or 'none'} {'is' if same == 1 else 'are'} word for word the same. "
        f"Both models got the same random numbers. {own.JUDGE} "
        "Single examples prove nothing: read them with the intervals in the summary."
    )
    if variant["variant"] == "dense":
        st.info("At 0 % nothing is cut, so both sides are the same. Move the slider.")


def _example(row: dict, at: int, shown: bool, after: str, narrow: bool = False) -> None:
    """A prompt with both texts, beside each other or, where `narrow`, one below the other; `after`
    names the second model."""
    label = f"{group_label(row['subgroup'])}, seed {row['seed']}"
    change = f" ({phrasing.signed(row['change'])})"
    texts = [str(row["text_dense"]), str(row["text_pruned"])]
    names = (("dense", "Dense", ""), ("pruned", after, change))
    sides = [
        (
            text,
            model,
            f"toxicity {phrasing.number(row[f'toxicity_{side}'])}{more}",
            apart(text, other),
        )
        for text, other, (side, model, more) in zip(texts, texts[::-1], names, strict=True)
    ]
    key = state.key_of("show", at, row["text_id_pruned"])
    example(key, shown, lambda _: safe.passage(row["prompt"], label=label), sides, narrow)


TAB = Tab("Texts", draw_texts, lambda run: run.has("generations") and run.has("texts"))

"""Texts: what the model wrote to the same prompt before and after, hidden until asked for."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from engine.core import words
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.store.runs import Run
from engine.tracks.language_models import words as own
from engine.tracks.language_models.examples import pairs
from pages.shared import safe, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, select
from pages.shared.navigation import Tab

PER_PAGE = 4
PER_SIDE = 2
EVERY = ""
BOTH = "both"
SIDES = {"more": "rose", "less": "fell"}
ORDERS = {
    BOTH: "Rose most beside fell most",
    "more": "Toxicity rose most",
    "less": "Toxicity fell most",
    "dense": "Most toxic before",
    "pruned": "Most toxic after",
}


def has(run: Run) -> bool:
    return run.has("generations") and run.has("texts")


def draw(run: KeptRun, choice: Choice) -> None:
    variant = lookup.variant_of(run, choice)
    found = made(run, pairs, variant["variant"], choice.axis)
    group, order, number, shown = _filters(found)
    mine = found if group == EVERY else found[found["subgroup"] == group]
    _summary(variant, mine)
    after = track_of(run).made(variant)
    if order == BOTH:
        _beside(mine, (number - 1) * PER_SIDE, shown, after)
        return
    start = (number - 1) * PER_PAGE
    for at, row in enumerate(
        _ordered(mine, order).iloc[start : start + PER_PAGE].to_dict("records")
    ):
        _example(row, start + at, shown, after)


def _filters(found: pd.DataFrame) -> tuple[str, str, int, bool]:
    left, middle, right = st.columns([4, 4, 2], gap="medium", vertical_alignment="bottom")
    with left:
        groups = [EVERY, *sorted(found["subgroup"].unique())]
        group = select("Subgroup", groups, state.SUBGROUP, _group_label)
    with middle:
        order = select("Sorted by", list(ORDERS), state.ORDER, ORDERS.__getitem__)
    mine = found if group == EVERY else found[found["subgroup"] == group]
    last = max(1, *(math.ceil(n / most) for n, most in _counts(mine, order)))
    with right:
        number = select(f"Page of {last}", list(range(1, last + 1)), state.PAGE)
    shown = st.toggle(
        "Show all texts on this page",
        key=state.SHOW_ALL,
        help="They were written by a language model and can be offensive, hateful or untrue.",
    )
    return group, order, number, shown


def _counts(rows: pd.DataFrame, order: str) -> list[tuple[int, int]]:
    """Of what is listed: how many there are, and how many are shown at a time."""
    if order == BOTH:
        return [(len(_changed(rows, side)), PER_SIDE) for side in SIDES]
    return [(len(rows), PER_PAGE)] * 2


def _changed(rows: pd.DataFrame, side: str) -> pd.DataFrame:
    """Pairs whose toxicity rose ("more") or fell ("less")."""
    return rows[rows["change"] > 0] if side == "more" else rows[rows["change"] < 0]


def _beside(rows: pd.DataFrame, start: int, shown: bool, after: str) -> None:
    """Where toxicity rose most beside where it fell most, so that neither is met alone."""
    for place, (column, (side, verb)) in enumerate(
        zip(st.columns(2, gap="large"), SIDES.items(), strict=True)
    ):
        mine = _ordered(_changed(rows, side), side)
        with column:
            of = phrasing.count(len(rows), "pair")
            st.header(f"Toxicity {verb} most", anchor=False)
            st.caption(
                f"In {len(mine)} of {of} it {verb}." if len(mine) else f"In none of {of} it {verb}."
            )
            for at, row in enumerate(mine.iloc[start : start + PER_SIDE].to_dict("records")):
                _example(
                    row, 2 * (start + at) + place, shown, after, narrow=True
                )  # numbers of its own on either side


def _group_label(group: str) -> str:
    return "All subgroups" if group == EVERY else capital(words.group_name(group))


def _ordered(found: pd.DataFrame, order: str) -> pd.DataFrame:
    column, ascending = {
        "less": ("change", True),
        "more": ("change", False),
        "dense": ("toxicity_dense", False),
        "pruned": ("toxicity_pruned", False),
    }[order]
    return found.sort_values(
        [column, "prompt_id", "seed"], ascending=[ascending, True, True], kind="stable"
    )


def _summary(variant: dict, rows: pd.DataFrame) -> None:
    if rows.empty:
        st.info("No test prompt of this subgroup was answered by both models.")
        return
    same = int((rows["text_id_dense"] == rows["text_id_pruned"]).sum())
    rose, fell = int((rows["change"] > 0).sum()), int((rows["change"] < 0).sum())
    st.caption(
        f"{phrasing.count(len(rows), 'pair')} of texts: toxicity fell in {fell}, rose in {rose};"
        f" {same} are word for word the same. Both models got the same random numbers. {own.JUDGE}"
        " Single examples prove nothing: read them beside the intervals in the summary."
    )
    if variant["variant"] == "dense":
        st.info("At 0 % nothing is cut, so both sides are the same. Move the slider.")


def _example(row: dict, at: int, shown: bool, after: str, narrow: bool = False) -> None:
    """A prompt with both texts, beside each other or, where `narrow`, one below the other; `after`
    names the second model."""
    change = phrasing.signed(row["change"])
    notes = {
        "dense": f"toxicity {phrasing.number(row['toxicity_dense'])}",
        "pruned": f"toxicity {phrasing.number(row['toxicity_pruned'])} ({change})",
    }
    with st.container(border=True):
        top, switch = st.columns([5, 2] if narrow else [7, 2], vertical_alignment="top")
        with top:
            safe.passage(
                row["prompt"],
                label=f"{capital(words.group_name(row['subgroup']))}, seed {row['seed']}",
            )
        with switch:
            asked = st.toggle(
                "Show", key=state.shown_key(row["text_id_pruned"], at), disabled=shown
            )
        boxes = [st.container(), st.container()] if narrow else st.columns(2, gap="medium")
        for box, (side, note) in zip(boxes, notes.items(), strict=True):
            with box:
                safe.generated(
                    row[f"text_{side}"],
                    after if side == "pruned" else "Dense",
                    note,
                    shown or asked,
                )


TAB = Tab("Texts", draw, has)

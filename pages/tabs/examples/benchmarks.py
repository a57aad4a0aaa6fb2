"""Benchmarks: items of published tests that the cut model answers otherwise, hidden until asked
for."""

from __future__ import annotations

import math

import streamlit as st

from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.store.runs import Run
from pages.shared import safe, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import select
from pages.shared.navigation import Tab

PER_PAGE = 6


def has(run: Run) -> bool:
    own = track_of(run).benchmarks
    return own is not None and bool(own.names(run))


def draw(run: KeptRun, choice: Choice) -> None:
    own = track_of(run).benchmarks
    assert own is not None  # the tab is drawn where `has` says so
    known = own.known()
    left, right, _ = st.columns([4, 2, 4], gap="medium", vertical_alignment="bottom")
    with left:
        name = select(
            "Benchmark", list(own.names(run)), state.BENCHMARK, lambda one: known.get(one, one)
        )
    found = made(run, own.changed, choice, name)
    last = max(1, math.ceil(len(found.table) / PER_PAGE))
    with right:
        number = select(f"Page of {last}", list(range(1, last + 1)), state.BENCHMARK_PAGE)
    st.markdown(safe.plain(found.said))
    if found.table.empty:
        return
    shown = st.toggle(
        "Show all texts on this page",
        key=state.SHOW_ALL,
        help="They state stereotypes, on purpose, and can be offensive.",
    )
    start = (number - 1) * PER_PAGE
    for at, row in enumerate(found.table.iloc[start : start + PER_PAGE].to_dict("records"), start):
        _example(row, at, shown, track_of(run).made(lookup.variant_of(run, choice)))


def _example(row: dict, at: int, shown: bool, after: str) -> None:
    """What both models prefer, beside each other."""
    with st.container(border=True):
        top, switch = st.columns([7, 2], vertical_alignment="top")
        with switch:
            asked = st.toggle("Show", key=state.shown_key(row["label"], at), disabled=shown)
        with top:
            if row["prompt"]:
                safe.generated(row["prompt"], row["label"], "", shown or asked)
            else:
                safe.passage("", row["label"])
        for box, side in zip(st.columns(2, gap="medium"), ("before", "after"), strict=True):
            with box:
                model = "Dense" if side == "before" else after
                safe.generated(row[side], model, row[f"{side}_note"], shown or asked)


TAB = Tab("Benchmarks", draw, has)

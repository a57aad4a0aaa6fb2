"""Benchmarks: items of published tests that the cut model answers otherwise, hidden until asked
for."""

from __future__ import annotations

import streamlit as st

from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.tracks import benchmarks_of, track_of
from engine.store.runs import Run
from pages.shared import safe, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import beside, page_of, select
from pages.shared.example import example
from pages.shared.navigation import Tab

PER_PAGE = 6


def has(run: Run) -> bool:
    own = benchmarks_of(run)
    return own is not None and bool(own.names(run))


def draw_benchmarks(run: KeptRun, choice: Choice) -> None:
    own = benchmarks_of(run)
    assert own is not None  # the tab is drawn where `has` says so
    known = own.known()
    left, right, _ = beside(4, 2, 4)
    with left:
        named = {name: known.get(name, name) for name in own.names(run)}
        name = select("Benchmark", named, state.BENCHMARK)
    found = made(run, own.changed, choice, name)
    with right:
        page = page_of(len(found.table), PER_PAGE, state.BENCHMARK_PAGE)
    st.markdown(safe.plain(found.said))
    if found.table.empty:
        return
    shown = st.toggle(
        "Show all texts on this page",
        key=state.SHOW_ALL,
        help="They state stereotypes, on purpose, and can be offensive.",
    )
    after = track_of(run).ways.made(lookup.variant_of(run, choice)) or "Pruned"
    for at, row in enumerate(found.table.iloc[page].to_dict("records"), page.start):
        _example(row, at, shown, after)


def _example(row: dict, at: int, shown: bool, after: str) -> None:
    """What both models prefer, beside each other."""

    def head(shown: bool) -> None:
        if row["prompt"]:
            safe.generated(row["prompt"], row["label"], "", shown)
        else:
            safe.passage("", row["label"])

    names = {"before": "Dense", "after": after}
    sides = [(row[side], model, row[f"{side}_note"]) for side, model in names.items()]
    example(state.key_of("show", at, row["label"]), shown, head, sides)


TAB = Tab("Benchmarks", draw_benchmarks, has)

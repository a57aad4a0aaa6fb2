"""Published benchmarks beside the audit's own measure: what they say, and the way to measure one
more."""

from __future__ import annotations

import streamlit as st

from engine.audit.growth import Growth
from engine.report.charts.panel import Choice
from engine.report.contract import Benchmarks
from engine.report.tracks import track_of
from pages.shared import panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import select
from pages.shared.measuring import measure


def folds(run: KeptRun, choice: Choice) -> None:
    """What each benchmark says of the chosen variant, and a fold to measure another; nothing where
    there are none."""
    own = track_of(run).benchmarks
    if own is None:
        return
    for name in own.names(run):
        title = own.known()[name]
        with st.expander(
            f"What does {title} say?", key=state.key_of(state.FOLD, name), on_change="rerun"
        ) as box:
            if box.open:
                panels.draw(made(run, own.panel, choice, name), state.key_of("benchmark", name))
    with st.expander(
        "Measure a benchmark", key=state.key_of(state.FOLD, "benchmark"), on_change="rerun"
    ) as box:
        if box.open:
            _ask(run, choice, own)


def _ask(run: KeptRun, choice: Choice, own: Benchmarks) -> None:
    """Which, and where its file lies; a button that measures every variant on it."""
    st.markdown(
        "Every reported variant is measured on it, paired with the uncut model. It reads a file"
        " that you have, as its authors publish it, and becomes one more way to read this page."
    )
    left, right = st.columns([2, 5], gap="medium", vertical_alignment="bottom")
    with left:
        name = select("Benchmark", list(own.known()), state.BENCHMARK, own.known().__getitem__)
    with right:
        label = f"Path of {own.wants(name)}"
        path = st.text_input(
            label, key=state.key_of(state.BENCHMARK_PATH, name), persist_state="session"
        ).strip()
    if not path:
        st.caption("Name the file; nothing is uploaded, the path is read on this machine.")
        return
    growth = Growth(
        track=track_of(run).name, run=run.id, axis=choice.axis, benchmarks=(f"{name}={path}",)
    )
    measure(growth, f"Measure {own.known()[name]}")

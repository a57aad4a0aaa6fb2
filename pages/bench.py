"""Bench: switch units on and off, see at once what is predicted, measure it, keep it as a variant
like any other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

import streamlit as st

from engine.audit.growth import Growth
from engine.core.words import is_by_hand
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import headline
from engine.report.charts.panel import Choice
from engine.report.contract import Bench, Units
from engine.report.hand_sets import kept_name
from engine.report.tracks import track_of
from pages.shared import bench_tools, panels, state
from pages.shared.cache import KeptRun, made, predicted_set
from pages.shared.controls import choose, show_on
from pages.shared.frame import begin_app, boundary, heading, need_run, plain
from pages.shared.measuring import measure
from pages.shared.navigation import entry_of
from pages.shared.safe import escaped


def page() -> None:
    heading("bench")
    run = need_run("bench")
    choice = choose(run, ahead=True)
    if bench := track_of(run).bench:
        _bench(run, choice, bench)


@st.fragment
def _bench(run: KeptRun, choice: Choice, bench: Bench) -> None:
    """Everything that follows a switched unit; the rest of the page stays."""
    with boundary():
        state.settle()
        off = bench_tools.off_of(run, bench)
        left, right = st.columns([6, 7], gap="large")
        with left:
            bench_tools.switches(run, choice, bench, off)
        with right:
            _outcome(run, choice, bench, off)


def _outcome(run: KeptRun, choice: Choice, bench: Bench, off: Units) -> None:
    """What the set is predicted to do, or what was measured; and the two steps of measuring."""
    if not off:
        st.header("What would happen?", anchor=False)
        what = (
            f"Switch a {track_of(run).one} off, and what that is predicted to do is shown here at"
            " once."
        )
        st.markdown(plain(f"{what} {bench.about}"))
        return
    known = _measured(run, choice, bench, off)
    if known:
        _shown(run, _as(run, choice, known), bench, "")
        _kept(run, known, bench.last)
        _said(run, choice, bench)
        panels.draw(
            made(run, bench.who, _as(run, choice, known)), state.key_of("bench", "who_pays")
        )
        return
    shown, ahead = predicted_set(run, choice, off, bench.ahead)
    if ahead is None:
        st.html(f'<p class="pa-answer">{escaped(bench.nothing(run, choice))}</p>')
        _measuring(run, choice, bench, off)
        _said(run, choice, bench)
        return
    mine = _as(run, choice, ahead.tables["variants"].iloc[0].to_dict())
    _shown(shown, mine, bench, ahead.said)
    _measuring(run, choice, bench, off)
    _said(run, choice, bench)
    panels.draw(made(shown, bench.who, mine), state.key_of("bench", "who_pays"))


def _shown(run: KeptRun, mine: Choice, bench: Bench, said: str) -> None:
    st.html(f'<p class="pa-answer">{escaped(said)}</p>')
    panels.headline(made(run, headline, mine))
    if bench.about:
        st.caption(plain(bench.about))


def _said(run: KeptRun, choice: Choice, bench: Bench) -> None:
    if said := bench.said(run, choice):
        st.caption(plain(said))


def _measured(run: KeptRun, choice: Choice, bench: Bench, off: Units) -> dict | None:
    """The variant of this very set whose harm on this axis was measured on test: a kept set, or the
    cut of a method."""
    rows = lookup.of_axis(run, lookup.reported(run), choice.axis).to_dict("records")
    mine = [row for row in rows if bench.cut_of(run, row) == tuple(sorted(off))]
    mine = [row for row in mine if lookup.harm(run, row["variant"], choice) is not None]
    mine.sort(key=lambda row: not is_by_hand(row["method"]))  # what has a name of its own first
    return next(
        (
            row
            for row in mine
            if lookup.variant_of(run, _as(run, choice, row))["variant"] == row["variant"]
        ),
        None,
    )


def _as(run: KeptRun, choice: Choice, variant: dict) -> Choice:
    """The choice that shows a variant."""
    return replace(
        choice, method=variant["method"], level=float(variant[track_of(run).level.column])
    )


def _measuring(run: KeptRun, choice: Choice, bench: Bench, off: Units) -> None:
    """First on what is for trying; then, a deliberate step, on test, as a variant that every page
    shows."""
    tried = made(run, bench.tried, choice, off)
    if tried is not None:
        panels.draw(tried, state.key_of("bench", "validation"))
    name = st.text_input(
        "Keep it as", key=state.SET_NAME, placeholder="a name, if you like", max_chars=60
    )
    kept = name or kept_name(run, off, partial(bench.cut_of, run))
    grown = Growth(track=track_of(run).name, run=run.id, axis=choice.axis, units=off, name=kept)
    if tried is None:
        label = f"Measure on {bench.first(run)}"
        measure(replace(grown, split=bench.first_split(run)), label, bench.seconds(run))
    else:
        last = phrasing.sentence(f"{bench.last} are for the last word, not for choosing")
        st.caption(plain(f"{last}: measure there once you have chosen."))
        measure(
            replace(grown, split="test"), f"Measure on {bench.last}, and keep", bench.seconds(run)
        )


def _kept(run: KeptRun, variant: dict, last: str) -> None:
    """Where a measured set is shown from now on; it goes along as what is chosen there."""
    if is_by_hand(variant["method"]):
        st.markdown(f"Measured on {last}, and kept: a variant like any other.")
    else:
        st.markdown(plain(f"Measured on {last} already: {lookup.variant_label(run, variant)}."))
    with st.container(horizontal=True, gap="small"):
        for page, label in _places(track_of(run).pages):
            if st.button(
                label, key=state.key_of("kept", page), icon=f":material/{entry_of(page).icon}:"
            ):
                show_on(page, run, variant)


def _places(pages: Collection[str]) -> list[tuple[str, str]]:
    every = (("trade_off", "Trade-off"), ("examples", "Examples"), ("export", "Export its mask"))
    return [(page, label) for page, label in every if page != "examples" or page in pages]


begin_app()
with boundary():
    page()

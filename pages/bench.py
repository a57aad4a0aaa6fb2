"""Bench: switch units on and off, see at once what is predicted, measure it, keep it as a variant
like any other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from engine.audit.request import Growth
from engine.core.words import is_by_hand
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.hand_sets import kept_name
from engine.report.tracks import Bench, Row, Track, Units, track_of
from engine.report.verdict import verdict
from pages.shared import panels, roots, state
from pages.shared.cache import KeptRun, made, predicted
from pages.shared.controls import button, capital
from pages.shared.frame import draw_page, opened, show_on
from pages.shared.measuring import measure
from pages.shared.navigation import entry_of
from pages.shared.safe import boundary, caption, escaped, header, plain

MOST_UNDONE = 50


@dataclass(frozen=True)
class Desk:
    """What the reader works on: a run, what is chosen of it, and the units that are off."""

    run: KeptRun
    choice: Choice
    bench: Bench
    off: Units

    @property
    def track(self) -> Track:
        return track_of(self.run)


def page() -> None:
    run, choice = opened("bench", ahead=True)
    if bench := track_of(run).bench:
        _bench(run, choice, bench)


@st.fragment
def _bench(run: KeptRun, choice: Choice, bench: Bench) -> None:
    """Everything that follows a switched unit; the rest of the page stays."""
    with boundary():
        state.settle()
        desk = Desk(run, choice, bench, _units_off(run, bench))
        left, right = st.columns([6, 7], gap="large")
        with left:
            _switches(desk)
        with right:
            _outcome(desk)


def _units_off(run: KeptRun, bench: Bench) -> Units:
    """Units that are off, from the address or this session; those of another model are
    forgotten."""
    asked, model = state.from_address(state.OFF), run.model["weight_hash"]
    if asked is None and state.kept(state.OFF_OF, model) != model:
        for key in (state.OFF, state.PROTECTED):
            state.put(key, [])
        for key in (state.OFF, state.UNDO):
            state.keep(key, [])
    state.keep(state.OFF_OF, model)
    found: Iterable[int] = state.value_of(state.OFF, state.kept(state.OFF, ()))
    if asked is not None:
        found = ()
        with boundary():  # of a link that names other units, the page below still serves
            found = bench.units(run, asked)
    off = tuple(sorted(found))
    state.put(state.OFF, list(off))
    state.to_address(state.OFF, bench.written(run, off))
    return state.keep(state.OFF, off)


# Every way to switch units: on the map, in a list or by layers, undo, what a method cuts, a mask.


def _switches(desk: Desk) -> None:
    run, choice, bench, off = desk.run, desk.choice, desk.bench, desk.off
    held = _held(bench)
    picture = made(run, bench.picture, choice, off, *([held] if held else []))
    # The key changes with the set, so that a unit can be clicked again.
    clicked = panels.draw(picture, state.key_of("bench", len(off), hash(off)), selectable=True)
    if clicked is not None:
        _switch(off, set(off) ^ {int(clicked)})
        st.rerun(scope="fragment")
    if bench.rows is None:
        _list(desk)
    else:
        _layers(desk, made(run, bench.rows, choice))
    _tools(desk)
    _paste(desk)


def _switch(before: Units, units: Iterable[int]) -> None:
    """Switch exactly these off; what was off before can be undone."""
    _remember(before)
    state.put_later(state.OFF, sorted(units))


def _remember(before: Sequence[int]) -> None:
    state.keep(state.UNDO, [*state.kept(state.UNDO, []), list(before)][-MOST_UNDONE:])


def _undo() -> None:
    undone = state.kept(state.UNDO, [])
    if undone:
        state.put_later(state.OFF, undone[-1])
        state.keep(state.UNDO, undone[:-1])


def _now_off() -> Units:
    """What is off when a callback is called: two quick changes may both come before the page is
    drawn again."""
    return tuple(state.coming(state.OFF, ()))


def _held(bench: Bench) -> Units:
    """Units that the reader protects."""
    if not bench.protects:
        return ()
    return tuple(state.value_of(state.PROTECTED, ()))


def _list(desk: Desk) -> None:
    run, bench, every = desk.run, desk.bench, range(desk.run.n_units)
    named = partial(bench.name, run)
    st.multiselect(
        f"{capital(desk.track.nouns.many)} that are off",
        every,
        key=state.OFF,
        format_func=named,
        on_change=_remember,
        args=(desk.off,),
        placeholder=bench.example,
    )
    if not bench.protects:
        return
    st.multiselect(
        "Protected by you",
        every,
        key=state.PROTECTED,
        format_func=named,
        placeholder=bench.example,
        help="These stay on: where a method would cut them, below, it takes the next ones.",
        persist_state="session",
    )


def _layers(desk: Desk, rows: Sequence[Row]) -> None:
    """A slider per layer: so many of its units off, those that come first in its order."""
    with st.expander("How many of each layer", expanded=len(rows) <= 16):
        caption(desk.bench.ordered(desk.run, desk.choice))
        sides = st.columns(2, gap="medium")
        for place, row in enumerate(rows):
            with sides[place % 2]:
                _layer(desk, row)


def _layer(desk: Desk, row: Row) -> None:
    """Its slider stands where its units are; one of a layer always stays."""
    gone, most = set(desk.off) & set(row.units), len(row.units) - 1
    key = state.key_of("layer", row.name, desk.choice.method, desk.choice.level)
    state.put(key, min(len(gone), most))
    label = row.name if gone == set(row.units[: len(gone)]) else f"{row.name}, picked one by one"
    st.slider(plain(label), 0, most, key=key, on_change=_cut_lowest, args=(row, key))


def _cut_lowest(row: Row, key: str) -> None:
    off = _now_off()
    _switch(off, (set(off) - set(row.units)) | set(row.units[: state.value_of(key)]))


def _tools(desk: Desk) -> None:
    """Undo, all the other units, what a method cuts."""
    off, track, choice = desk.off, desk.track, desk.choice
    with st.container(horizontal=True, gap="small"):
        is_first = not state.kept(state.UNDO, [])
        button("Undo", ("bench", "undo"), _undo, icon="undo", disabled=is_first)
        button("All on", ("bench", "all"), _switch, off, (), disabled=not off)
        if desk.bench.rows is None:
            button("Invert", ("bench", "invert"), _invert, desk.run.n_units)
        by_method = choice.method != "dense" and not is_by_hand(choice.method)
        is_cut = by_method and not track.ways.title(choice.method)
        if is_cut and choice.level > track.level.none:
            method = lookup.method_label(desk.run, choice.method)
            label = plain(f"What {method} cuts at {track.level.say(choice.level)}")
            about = "The method and level chosen above."
            button(label, ("bench", "method"), _as_method, desk, help=about)


def _invert(total: int) -> None:
    off = _now_off()
    _switch(off, set(range(total)) - set(off))


def _as_method(desk: Desk) -> None:
    _switch(desk.off, desk.bench.as_method(desk.run, desk.choice, _held(desk.bench)))


def _paste(desk: Desk) -> None:
    many, bench = desk.track.nouns.many, desk.bench
    with st.expander(f"Paste {many}, or a mask.json"):
        label = f"{capital(many)} from 0"
        typed = st.text_input(label, placeholder=bench.example, key=state.PASTED)
        file = st.file_uploader("Or a mask.json", type=["json"])
        if st.button("Switch these off", disabled=not (typed or file)):
            with boundary():
                _switch(desk.off, bench.units(desk.run, roots.kept(file) if file else typed))
                st.rerun(scope="fragment")


# What the set does, and the way to know it.


def _outcome(desk: Desk) -> None:
    """What the set is predicted to do, or what was measured; and the two steps of measuring."""
    run, choice, bench, off = desk.run, desk.choice, desk.bench, desk.off
    if not off:
        header("What would happen?")
        what = f"Switch a {desk.track.nouns.one} off: this page shows what is known of that"
        st.markdown(plain(f"{what}, and measures it if you like. {bench.about}"))
        return
    if known := _measured(desk):
        mine = _as(run, choice, known)
        _shown(desk, run, mine)
        _kept(desk, known)
        _tried(desk, run, mine)
        return
    shown, ahead = predicted(run, choice, bench.ahead, off)
    if ahead is None:
        st.html(f'<p class="pa-answer">{escaped(bench.nothing(run, choice))}</p>')
        _measuring(desk)
        caption(bench.said(run, choice))
        return
    mine = _as(run, choice, ahead.tables["variants"].iloc[0].to_dict())
    st.html(f'<p class="pa-answer">{escaped(ahead.said)}</p>')
    _shown(desk, shown, mine)
    _measuring(desk)
    _tried(desk, shown, mine)


def _shown(desk: Desk, run: KeptRun, mine: Choice) -> None:
    panels.verdict(made(run, verdict, mine))
    caption(made(run, _changes, mine), desk.bench.about)


def _changes(run: KeptRun, mine: Choice) -> str:
    """What harm and quality change by, with their intervals."""
    variant, said = lookup.variant_of(run, mine), []
    for card in lookup.reading(run, mine).cards:
        row = lookup.measured(run, variant["variant"], card, mine)
        if row is not None:
            span = card.span(row["delta_low"], row["delta_high"])
            said.append(f"{card.word.name} {card.signed(row['delta'])} ({span})")
    kind = "prediction intervals" if lookup.is_predicted(variant) else "intervals"
    return f"Changes, with 95 % {kind}: {'; '.join(said)}."


def _tried(desk: Desk, run: KeptRun, mine: Choice) -> None:
    """How many sets were tried, and who pays for this one."""
    caption(desk.bench.said(desk.run, desk.choice))
    panels.draw(made(run, desk.bench.who, mine), state.key_of("bench", "who_pays"))


def _measured(desk: Desk) -> dict | None:
    """The variant of this very set whose harm on this axis was measured on test: a kept set, or the
    cut of a method."""
    run, choice = desk.run, desk.choice
    rows = lookup.of_axis(run, lookup.reported(run), choice.axis).to_dict("records")
    rows.sort(key=lambda row: not is_by_hand(row["method"]))  # what has a name of its own first
    for row in rows:
        name, is_it = row["variant"], desk.bench.cut_of(run, row) == tuple(sorted(desk.off))
        if not is_it or lookup.harm(run, name, choice) is None:
            continue
        if lookup.variant_of(run, _as(run, choice, row))["variant"] == name:
            return row
    return None


def _as(run: KeptRun, choice: Choice, variant: dict) -> Choice:
    """The choice that shows a variant."""
    level = float(variant[track_of(run).level.column])
    return replace(choice, method=variant["method"], level=level)


def _measuring(desk: Desk) -> None:
    """First on what is for trying; then, a deliberate step, on test, as a variant that every page
    shows."""
    run, bench, off = desk.run, desk.bench, desk.off
    tried = made(run, bench.tried, desk.choice, off)
    if tried is not None:
        panels.draw(tried, state.key_of("bench", "validation"))
    name = st.text_input(
        "Keep it as", key=state.SET_NAME, placeholder="a name, if you like", max_chars=60
    )
    growth = Growth(
        track=desk.track.name,
        run=run.id,
        axis=desk.choice.axis,
        units=off,
        name=name or kept_name(run, off, partial(bench.cut_of, run)),
        split="test" if tried is not None else bench.first_split(run),
    )
    label = f"Measure on {bench.first(run)}"
    if tried is not None:
        last = phrasing.sentence(f"{bench.last} are for the final check, not for choosing")
        caption(f"{last}: measure there once you have chosen.")
        label = f"Measure on {bench.last}, and keep"
    measure(growth, label, bench.seconds(run), run)


def _kept(desk: Desk, variant: dict) -> None:
    """Where a measured set is shown from now on; it goes along as what is chosen there."""
    run, last = desk.run, desk.bench.last
    if is_by_hand(variant["method"]):
        st.markdown(f"Measured on {last}, and kept: a variant like any other.")
    else:
        st.markdown(plain(f"Measured on {last} already: {lookup.variant_label(run, variant)}."))
    pages = {"trade_off": "Trade-off", "examples": "Examples", "export": "Export its mask"}
    with st.container(horizontal=True, gap="small"):
        for page, label in pages.items():
            if page == "examples" and page not in desk.track.screens.pages:
                continue
            if button(label, ("kept", page), icon=entry_of(page).icon):
                show_on(page, run, variant)


draw_page(page)

"""The bench's left side: which units are off, and every way to switch them: map, list, layers,
undo, paste, a mask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import streamlit as st

from engine.core.words import is_by_hand
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contract import Bench, Row, Units
from engine.report.tracks import track_of
from pages.shared import panels, roots, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital
from pages.shared.frame import boundary, plain

MOST_UNDONE = 50


def off_of(run: KeptRun, bench: Bench) -> Units:
    """Units that are off, from the address or this session; those of another model are
    forgotten."""
    asked, model = state.from_address(state.OFF), run.meta["model"]["weight_hash"]
    if asked is None and state.kept(state.OFF_OF, model) != model:
        for key in (state.OFF, state.PROTECTED):
            state.put(key, [])
        for key in (state.OFF, state.PROTECTED, state.UNDO):
            state.keep(key, [])
    state.keep(state.OFF_OF, model)
    found: Iterable[int] = state.value_of(state.OFF, state.kept(state.OFF, ()))
    if asked is not None:
        found = ()
        with boundary():  # of a link that names other units, the page below still serves
            found = bench.units(run, asked)
    found = tuple(sorted(found))
    state.put(state.OFF, list(found))
    state.to_address(state.OFF, bench.written(run, found))
    return state.keep(state.OFF, found)


def switches(run: KeptRun, choice: Choice, bench: Bench, off: Units) -> None:
    """The map; a list of what is off, or the layers; the tools."""
    key = state.key_of(
        "bench", len(off), hash(off)
    )  # changes with the set, so that a unit can be clicked again
    held = _held(bench)
    clicked = panels.draw(
        made(run, bench.picture, choice, off, *([held] if held else [])), key, selectable=True
    )
    if clicked is not None:
        switch(off, set(off) ^ {int(clicked)})
        st.rerun(scope="fragment")
    if bench.rows is None:
        _list(run, bench, off)
    else:
        _layers(made(run, bench.rows, choice), bench.ordered(run, choice), choice, off)
    _tools(run, choice, bench, off)
    _paste(run, bench, off)


def switch(before: Units, units: Iterable[int]) -> None:
    """Switch exactly these off; what was off before can be undone."""
    _remember(before)
    state.put_later(state.OFF, sorted(units))


def _held(bench: Bench) -> Units:
    """Units that the reader protects."""
    return (
        tuple(state.value_of(state.PROTECTED, state.kept(state.PROTECTED, ())))
        if bench.protects
        else ()
    )


def _list(run: KeptRun, bench: Bench, off: Units) -> None:
    many, every = track_of(run).many, range(track_of(run).total(run))
    st.multiselect(
        f"{capital(many)} that are off",
        every,
        key=state.OFF,
        format_func=lambda unit: bench.name(run, unit),
        on_change=_remember,
        args=(off,),
        placeholder=bench.example,
    )
    if not bench.protects:
        return
    state.restore_list(state.PROTECTED, every)
    held = st.multiselect(
        "Protected by you",
        every,
        key=state.PROTECTED,
        format_func=lambda unit: bench.name(run, unit),
        placeholder=bench.example,
        help="What a method cuts, below, leaves these on and takes the next ones.",
    )
    state.keep(state.PROTECTED, held)


def _layers(rows: Sequence[Row], ordered: str, choice: Choice, off: Units) -> None:
    """A slider per layer: so many of its units off, those that come first in its order."""
    with st.expander("How many of each layer", expanded=True):
        st.caption(plain(ordered))
        sides = st.columns(2, gap="medium")
        for place, row in enumerate(rows):
            with sides[place % 2]:
                _layer(row, off, choice)


def _layer(row: Row, off: Units, choice: Choice) -> None:
    """Its slider stands where its units are; one of a layer always stays."""
    gone = set(off) & set(row.units)
    key = state.key_of("layer", row.name, choice.method, choice.level)
    state.put(key, min(len(gone), len(row.units) - 1))
    label = row.name if gone == set(row.units[: len(gone)]) else f"{row.name}, picked one by one"
    st.slider(plain(label), 0, len(row.units) - 1, key=key, on_change=_cut_lowest, args=(row, key))


def _cut_lowest(row: Row, key: str) -> None:
    off = _now_off()
    switch(off, (set(off) - set(row.units)) | set(row.units[: state.value_of(key)]))


def _now_off() -> Units:
    """What is off when a callback is called: two quick changes may both come before the page is
    drawn again."""
    return tuple(state.coming(state.OFF, ()))


def _tools(run: KeptRun, choice: Choice, bench: Bench, off: Units) -> None:
    """Undo, all the other units, what a method cuts."""
    total, undone = track_of(run).total(run), state.kept(state.UNDO, [])
    with st.container(horizontal=True, gap="small"):
        st.button("Undo", icon=":material/undo:", disabled=not undone, on_click=_undo)
        st.button("All on", disabled=not off, on_click=switch, args=(off, ()))
        if bench.rows is None:
            st.button("Invert", on_click=_invert, args=(total,))
        level = track_of(run).level
        has_cut = (
            not track_of(run).level_is_of_another_kind(choice.method) and choice.method != "dense"
        )
        if has_cut and not is_by_hand(choice.method) and choice.level > level.none:
            label = (
                f"What {lookup.method_label(run, choice.method)} cuts at {level.say(choice.level)}"
            )
            st.button(
                plain(label),
                on_click=_as_method,
                args=(run, choice, bench, off),
                help="The method and level chosen above.",
            )


def _invert(total: int) -> None:
    off = _now_off()
    switch(off, set(range(total)) - set(off))


def _paste(run: KeptRun, bench: Bench, off: Units) -> None:
    many = track_of(run).many
    with st.expander(f"Paste {many}, or a mask.json"):
        typed = st.text_input(
            f"{capital(many)} from 0", placeholder=bench.example, key=state.PASTED
        )
        file = st.file_uploader("Or a mask.json", type=["json"])
        if st.button("Switch these off", disabled=not (typed or file)):
            with boundary():
                switch(off, bench.units(run, roots.kept(file) if file else typed))
                st.rerun(scope="fragment")


def _remember(before: Sequence[int]) -> None:
    state.keep(state.UNDO, [*state.kept(state.UNDO, []), list(before)][-MOST_UNDONE:])


def _undo() -> None:
    undone = state.kept(state.UNDO, [])
    if undone:
        state.put_later(state.OFF, undone[-1])
        state.keep(state.UNDO, undone[:-1])


def _as_method(run: KeptRun, choice: Choice, bench: Bench, off: Units) -> None:
    switch(off, bench.as_method(run, choice, _held(bench)))

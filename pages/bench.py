"""Bench: switch heads on and off, see at once what is predicted, measure it, keep it as a variant like any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from engine.audit.growth import Growth
from engine.core.levels import is_level
from engine.report import phrasing
from engine.report.charts import lookup
from engine.report.charts.headline import headline
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.tracks.language_models.ahead import ahead_of_set
from engine.tracks.language_models.any_level import heads_sparing
from engine.tracks.language_models.hand_sets import kept_name, mask_of, name_of, units_of
from engine.tracks.language_models.panels.bench import bench_map, on_validation, tried_said
from engine.tracks.language_models.panels.who_pays import who_pays
from engine.tracks.language_models.words import is_by_hand
from pages.shared import panels, state, uploads
from pages.shared.cache import KeptRun, made, predicted_set
from pages.shared.controls import choose, show_on
from pages.shared.frame import begin_app, boundary, heading, need_run, plain
from pages.shared.measuring import NOTHING, measure
from pages.shared.safe import escaped
from pages.shared.sections import entry_of

MOST_UNDONE = 50


def page() -> None:
    heading("bench")
    run = need_run("bench")
    choice = choose(run, ahead=True)
    _bench(run, choice)


@st.fragment
def _bench(run: KeptRun, choice: Choice) -> None:
    """Everything that follows a switched head; the rest of the page stays."""
    with boundary():
        state.settle()
        off = _off(run)
        left, right = st.columns([6, 7], gap="large")
        with left:
            _map(run, choice, off)
            _tools(run, choice, off)
        with right:
            _outcome(run, choice, off)


def _off(run: KeptRun) -> tuple[int, ...]:
    """Heads that are off, from the address or this session; those of another model are forgotten."""
    asked, model = state.from_address(state.OFF), run.meta["model"]["weight_hash"]
    if asked is None and state.kept(state.OFF_OF, model) != model:
        for key in (state.OFF, state.SPARED):
            state.put(key, [])
        state.keep(state.UNDO, [])
    state.keep(state.OFF_OF, model)
    found: Sequence[int] = state.value_of(state.OFF, state.kept(state.OFF, ()))
    if asked is not None:
        found = ()
        with boundary():  # of a link that names other heads, the page below still serves
            found = units_of(run, asked)
    found = tuple(found)
    state.put(state.OFF, list(found))
    state.to_address(state.OFF, _written(run, found))
    return state.keep(state.OFF, found)


def _map(run: KeptRun, choice: Choice, off: tuple[int, ...]) -> None:
    """The map. A click switches a head; the chart's key changes with the set, so that the same head can be clicked
    again."""
    key = state.key_of("bench", *off)
    clicked = panels.draw(made(run, bench_map, choice, off), key, selectable=True)
    if clicked is not None:
        _set(off, set(off) ^ {int(clicked)})
        st.rerun(scope="fragment")
    st.multiselect("Heads that are off", range(lookup.total_heads(run)), key=state.OFF,
                   format_func=lambda unit: _name(run, unit), on_change=_remember, args=(off,),
                   placeholder="Layer.head, from 0")  # fmt: skip
    state.restore_list(state.SPARED, range(lookup.total_heads(run)))
    spared = st.multiselect("Heads to spare", range(lookup.total_heads(run)), key=state.SPARED,
                            format_func=lambda unit: _name(run, unit), placeholder="Layer.head, from 0",
                            help="What a method cuts, below, leaves these on and takes the next ones.")  # fmt: skip
    state.keep(state.SPARED, spared)


def _tools(run: KeptRun, choice: Choice, off: tuple[int, ...]) -> None:
    """Undo, all the other heads, what a method cuts, a set from elsewhere."""
    total, undone = lookup.total_heads(run), state.kept(state.UNDO, [])
    with st.container(horizontal=True, gap="small"):
        st.button("Undo", icon=":material/undo:", disabled=not undone, on_click=_undo)
        st.button("All on", disabled=not off, on_click=_set, args=(off, ()))
        st.button("Invert", on_click=_set, args=(off, set(range(total)) - set(off)))
        if choice.method != "dense" and not is_by_hand(choice.method) and choice.level > 0:
            label = f"What {lookup.method_label(run, choice.method)} cuts at {phrasing.percent(choice.level)}"
            st.button(label, on_click=_as_method, args=(run, choice, off), help="The method and level chosen above.")
    with st.expander("Paste heads, or a mask.json"):
        typed = st.text_input("Heads as layer.head", placeholder="0.5, 3.2", key=state.PASTED)
        file = st.file_uploader("Or a mask.json", type=["json"])
        if st.button("Switch these off", disabled=not (typed or file)):
            with boundary():
                _set(off, units_of(run, uploads.kept(file) if file else typed))
                st.rerun(scope="fragment")


def _outcome(run: KeptRun, choice: Choice, off: tuple[int, ...]) -> None:
    """What the set is predicted to do, or what was measured; and the two steps of measuring."""
    if not off:
        st.subheader("What would happen?", anchor=False)
        st.markdown("Switch a head off, and what that is predicted to do is shown here at once.")
        return
    mask = mask_of(run, [divmod(unit, run.meta["model"]["n_heads"]) for unit in off])
    known = _measured(run, choice, off)
    mine = _as(choice, known) if known else replace(choice, method=name_of(mask), level=mask.sparsity)
    if known:
        shown, ahead = run, None
    else:
        shown, ahead = predicted_set(run, mine, off, ahead_of_set)
    st.html(f'<p class="pa-answer">{escaped(ahead.said if ahead else "" if known else NOTHING)}</p>')
    if known or ahead:
        panels.headline(made(shown, headline, mine))
    if known:
        _kept(run, known)
    else:
        _measuring(run, choice, off)
    if said := tried_said(run, choice):
        st.caption(said)
    if known or ahead:
        panels.draw(made(shown, who_pays, mine), state.key_of("bench", "who_pays"))


def _measured(run: KeptRun, choice: Choice, off: tuple[int, ...]) -> dict | None:
    """The variant of this very set whose bias of this axis was measured on test prompts: a kept set, or the cut of a
    method."""
    rows = lookup.of_axis(run, lookup.reported(run), choice.axis).to_dict("records")
    mine = [row for row in rows if tuple(lookup.cut_units(row)) == tuple(sorted(off))]
    mine = [row for row in mine if lookup.harm(run, row["variant"], choice) is not None]
    mine.sort(key=lambda row: not is_by_hand(row["method"]))  # what has a name of its own first
    return next((row for row in mine if lookup.variant_of(run, _as(choice, row))["variant"] == row["variant"]), None)


def _as(choice: Choice, variant: dict) -> Choice:
    """The choice that shows a variant."""
    return replace(choice, method=variant["method"], level=float(variant["sparsity"]))


def _measuring(run: KeptRun, choice: Choice, off: tuple[int, ...]) -> None:
    """First on validation prompts; then, a deliberate step, on test prompts, as a variant that every page shows."""
    tried = made(run, on_validation, choice, off)
    if tried is not None:
        panels.draw(tried, state.key_of("bench", "validation"))
    name = st.text_input("Keep it as", key=state.SET_NAME, placeholder="a name, if you like", max_chars=60)
    given = {
        "track": track_of(run).name,
        "run": run.id,
        "axis": choice.axis,
        "units": off,
        "name": name or kept_name(run, off),
    }
    if tried is None:
        measure(Growth(**given, split="validation"), "Measure on validation prompts")
    else:
        st.caption("Test prompts are for the last word, not for choosing: measure there once you have chosen.")
        measure(Growth(**given, split="test"), "Measure on test prompts, and keep")


def _kept(run: KeptRun, variant: dict) -> None:
    """Where a measured set is shown from now on; it goes along as what is chosen there."""
    if is_by_hand(variant["method"]):
        st.markdown("Measured on test prompts, and kept: a variant like any other.")
    else:
        st.markdown(plain(f"Measured on test prompts already: {lookup.variant_label(run, variant)}."))
    with st.container(horizontal=True, gap="small"):
        for page, label in (("trade_off", "Trade-off"), ("examples", "Examples"), ("export", "Export its mask")):
            if st.button(label, key=state.key_of("kept", page), icon=f":material/{entry_of(page).icon}:"):
                show_on(page, run, variant)


def _name(run: KeptRun, unit: int) -> str:
    layer, head = divmod(unit, run.meta["model"]["n_heads"])
    return f"{layer}.{head}"


def _written(run: KeptRun, units: Sequence[int]) -> str:
    return ",".join(_name(run, unit) for unit in units)


def _set(before: Sequence[int], units: Sequence[int]) -> None:
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


def _as_method(run: KeptRun, choice: Choice, off: tuple[int, ...]) -> None:
    """The heads that the chosen method cuts at the chosen level; others in place of those to spare."""
    spared, measured = state.kept(state.SPARED, ()), lookup.levels(run, choice.method, choice.axis)
    if not spared and is_level(choice.level, measured):
        _set(off, lookup.cut_units(lookup.variant_of(run, choice)))
    else:
        _set(off, heads_sparing(run, choice.method, choice.axis, choice.level, spared))


begin_app()
with boundary():
    page()

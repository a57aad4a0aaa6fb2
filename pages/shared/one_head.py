"""One head of a model: its picker, the way from head to head by rank, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from engine.core import words
from engine.report.charts.panel import Choice
from engine.report.contract import Changed, Effects
from pages.shared import panels, safe, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, select_number
from pages.shared.safe import plain


def walk(run: KeptRun, ranked: Sequence[int]) -> int:
    """The head picker between two buttons that go from head to head by rank."""
    with st.container(key=state.HEAD_WALK):
        before, middle, after = st.columns([1, 4, 1], gap="small", vertical_alignment="bottom")
    with middle:
        unit = pick(run, label_visibility="collapsed")
    for column, name, step, icon, letter in (
        (before, "previous", -1, "arrow_back", "P"),
        (after, "next", 1, "arrow_forward", "N"),
    ):
        with column:
            st.button(
                f"{capital(name)} head by rank",
                key=state.key_of("head", name),
                icon=f":material/{icon}:",
                on_click=_walk_on,
                args=(ranked, step),
                shortcut=letter,
                width="stretch",
                help=f"The {name} head by rank.",
            )
    return unit


def _walk_on(ranked: Sequence[int], step: int) -> None:
    """From the head that is picked now: a key pressed before it is drawn goes on from it, not from
    the one before."""
    unit = state.value_of(state.HEAD)
    place = list(ranked).index(unit) if unit in ranked else 0
    state.put(state.HEAD, ranked[(place + step) % len(ranked)])


def pick(run: KeptRun, **more: Any) -> int:
    """The head picker."""
    n_layers, n_heads = run.meta["model"]["n_layers"], run.meta["model"]["n_heads"]

    def named(unit: int) -> str:
        return capital(words.head_name(unit // n_heads, unit % n_heads))

    help_text = "Or click a head in one of the charts."
    return select_number(
        "Head", range(n_layers * n_heads), state.HEAD, named, help=help_text, **more
    )


def about(run: KeptRun, choice: Choice, maps: Effects, unit: int, is_short: bool = False) -> None:
    """The card of one head; where it `is_short`, only what the track says first of it stands
    open."""
    panels.card(
        made(run, maps.card, choice, unit),
        state.key_of("card", "dots"),
        maps.first if is_short else (),
    )


def without(changed: Changed) -> None:
    """Examples of what the model writes without the head, hidden until asked for."""
    st.markdown("**What does the model write without it?**")
    st.caption(plain(changed.said))
    if changed.table.empty:
        return
    shown = st.toggle(
        "Show these texts",
        key=state.SHOW_CHANGED,
        help="They were written by a language model and can be offensive, hateful or untrue.",
    )
    for row in changed.table.to_dict("records"):
        safe.passage(row["prompt"], label=capital(row["label"]))
        safe.generated(row["before"], "Dense", row["before_note"], shown)
        safe.generated(row["after"], "Pruned", row["after_note"], shown)


def numbers(run: KeptRun, make: Callable[..., Any]) -> None:
    """All numbers of the head that is picked."""
    st.header("What do we know about one head?", anchor=False)
    panels.table(made(run, make, pick(run)))
    st.caption(words.COUNTING)

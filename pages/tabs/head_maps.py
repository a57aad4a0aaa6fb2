"""Maps of all heads, what each does, and the card of one. Beside it: the way from head to head by
rank, what the model writes without it, and all its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from engine.core import words
from engine.report.charts.panel import Choice
from engine.report.tracks import Changed, Effects, Maps, track_of
from pages.shared import panels, safe, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import button, capital, group_label, select, select_number
from pages.shared.navigation import Tab


def maps_of_heads(run: KeptRun, choice: Choice) -> None:
    maps = track_of(run).maps
    if isinstance(maps, Effects):
        _effects(run, choice, maps)
    elif maps:
        _importance(run, choice, maps)


def _effects(run: KeptRun, choice: Choice, maps: Effects) -> None:
    """What each head does to bias and perplexity, and the card of one head."""
    first, card, rest = _places()
    shown = ((first, maps.picture, "picture"), (rest, maps.quality, "perplexity"))
    # Clicks are read before anything is drawn: drawing twice would double the wait.
    for _, _, name in shown:
        key = state.key_of("map", name)
        clicked = panels.selected(state.value_of(key))
        if panels.fresh(key, clicked):
            state.put(state.HEAD, int(clicked))
    with card:
        unit = _walk(run, made(run, maps.ranked, choice))
        panels.card(made(run, maps.card, choice, unit), state.key_of("card", "dots"), maps.first)
    for place, make, name in shown:
        with place:
            panel = made(run, make, choice, unit=unit)
            panels.draw(panel, state.key_of("map", name), selectable=True)
    panels.look_ahead(run, (maps.picture,), choice, {maps.picture: {"unit": unit}})


def _places() -> tuple[Any, Any, Any]:
    """Where the first map goes, the card of a head beside it (below it on a narrow screen), and all
    other charts. The card stays in sight while these are read."""
    with st.container(key=state.EXPLORER):
        return st.container(), st.container(key=state.HEAD_CARD, gap="small"), st.container()


def _importance(run: KeptRun, choice: Choice, maps: Maps) -> None:
    """Maps of an importance at several stages, for a score and a group of texts that the reader
    chooses. A click in one moves the head picker."""
    scores, groups = maps.scores(run, choice), maps.groups(run, choice)
    if not scores:
        st.info("This audit kept no importance of heads.")
        return
    left, right = st.columns(2, gap="medium")
    with left:
        score = select("Score", scores, state.SCORE, lambda name: capital(maps.name(name)))
    with right:
        group = select("Measured on", groups, state.TICKET_GROUP, group_label)
    options = {"score": score, "group": group}
    first = st.container()
    _numbers(run, maps)
    beside = zip(st.columns(2, gap="large"), maps.beside, strict=True)
    for place, make in [*((first, make) for make in maps.wide), *beside]:
        can = make in maps.selectable
        key = state.key_of("map", make.__name__)
        with place:
            panel = made(run, make, choice, **(options if can or make in maps.wide else {}))
            clicked = panels.draw(panel, key, selectable=can)
        if can and panels.fresh(key, clicked):
            state.put_later(state.HEAD, int(clicked))
            st.rerun()
    panels.look_ahead(run, maps.wide, choice, dict.fromkeys(maps.wide, options))


def one_head(run: KeptRun, choice: Choice) -> None:
    """One head: what it does, what the model writes without it, and all its numbers."""
    maps = track_of(run).maps
    if isinstance(maps, Effects):
        left, right = st.columns([5, 6], gap="large")
        with left:
            unit = _walk(run, made(run, maps.ranked, choice))
            panels.card(made(run, maps.card, choice, unit), state.key_of("card", "dots"))
        with right:
            _without(made(run, maps.changed, choice, unit))
        st.markdown("**All numbers of this head**")
        panels.table(made(run, maps.numbers, unit))
    elif maps:
        _numbers(run, maps)


def _walk(run: KeptRun, ranked: Sequence[int]) -> int:
    """The head picker between two buttons that go from head to head by rank."""
    with st.container(key=state.HEAD_WALK):
        before, middle, after = st.columns([1, 4, 1], gap="small", vertical_alignment="bottom")
    if len(ranked) and state.kept(state.HEAD) is None and state.in_address(state.HEAD) is None:
        state.put(state.HEAD, ranked[0])
    with middle:
        unit = _pick(run, label_visibility="collapsed")
    for column, name, step, icon, letter in (
        (before, "previous", -1, "arrow_back", "P"),
        (after, "next", 1, "arrow_forward", "N"),
    ):
        with column:
            button(
                f"{capital(name)} head by rank",
                ("head", name),
                _walk_on,
                ranked,
                step,
                icon=icon,
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


def _pick(run: KeptRun, **more: Any) -> int:
    """The head picker."""
    n_layers, n_heads = run.model["n_layers"], run.model["n_heads"]

    def named(unit: int) -> str:
        return capital(words.head_name(*divmod(unit, n_heads)))

    units, help_text = range(n_layers * n_heads), "Or click a head in one of the charts."
    return select_number("Head", units, state.HEAD, named, help=help_text, **more)


def _without(changed: Changed) -> None:
    """Examples of what the model writes without the head, hidden until asked for."""
    st.markdown("**What does the model write without it?**")
    safe.caption(changed.said)
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


def _numbers(run: KeptRun, maps: Maps) -> None:
    """All numbers of the head that is picked."""
    safe.header("What do we know about one head?")
    panels.table(made(run, maps.numbers, _pick(run)))
    st.caption(words.COUNTING)


MAP = Tab("Map", maps_of_heads)
ONE_HEAD = Tab("One head", one_head)

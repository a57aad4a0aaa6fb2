"""Head scores: which heads add to the bias or matter to the task, which were cut, and what is known of one head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from engine.core import words
from engine.report.charts.panel import Choice
from engine.report.contract import Changed, Effects, Maps
from engine.report.tracks import track_of
from pages.shared import panels, safe, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, choose, select, select_number, texts_label
from pages.shared.frame import begin_app, boundary, heading, need_run
from pages.shared.safe import plain

PICTURE, BIAS, PERPLEXITY = (state.key_of("map", name) for name in ("picture", "bias", "perplexity"))


def page() -> None:
    heading("head_scores")
    run = need_run("head_scores")
    choice, maps = choose(run), track_of(run).maps
    if isinstance(maps, Effects):
        _effects(run, choice, maps)
    elif maps:
        _importance(run, choice, maps)


def _effects(run: KeptRun, choice: Choice, maps: Effects) -> None:
    """What each head does to bias and perplexity, and the card of one head."""
    first, card, rest = _places()
    for key in (PICTURE, BIAS, PERPLEXITY):  # before anything is drawn: drawing twice would double the wait
        clicked = panels.selected(state.value_of(key))
        if panels.fresh(key, clicked):
            state.put(state.HEAD, int(clicked))
    with card:
        unit = _walk(run, made(run, maps.ranked, choice))
        panels.card(made(run, maps.card, choice, unit), state.key_of("card", "dots"))
        _without(made(run, maps.changed, choice, unit))
        with st.expander("All numbers of this head", icon=":material/table_rows:"):
            panels.table(made(run, maps.numbers, unit))
    for place, make, key in ((first, maps.picture, PICTURE), (rest, maps.bias, BIAS), (rest, maps.quality, PERPLEXITY)):
        with place:
            panels.draw(made(run, make, choice, unit=unit), key, selectable=True)
    with rest:
        for axis in run.meta["request"]["axes"]:
            if axis != choice.axis:
                panels.draw(made(run, maps.bias, replace(choice, axis=axis)), state.key_of("map", axis))
    panels.look_ahead(run, (maps.picture,), choice, {maps.picture: {"unit": unit}})


def _places() -> tuple[Any, Any, Any]:
    """Where the first map goes, the card of a head beside it (below it on a narrow screen), and all other charts. The
    card stays in sight while these are read."""
    with st.container(key=state.EXPLORER):
        return st.container(), st.container(key=state.HEAD_CARD, gap="small"), st.container()


def _walk(run: KeptRun, ranked: Sequence[int]) -> int:
    """The head picker between two buttons that go from head to head by rank."""
    with st.container(key=state.HEAD_WALK):
        before, middle, after = st.columns([1, 4, 1], gap="small", vertical_alignment="bottom")
    with middle:
        unit = _pick_head(run, label_visibility="collapsed")
    place = list(ranked).index(unit) if unit in ranked else 0
    for column, name, step, icon, letter in (
        (before, "previous", -1, "arrow_back", "P"),
        (after, "next", 1, "arrow_forward", "N"),
    ):
        to = ranked[(place + step) % len(ranked)]
        with column:
            st.button(
                f"{capital(name)} head by rank", key=state.key_of("head", name), icon=f":material/{icon}:",
                on_click=state.put, args=(state.HEAD, to), shortcut=letter, width="stretch",
                help=f"The {name} head by rank.",
            )  # fmt: skip
    return unit


def _without(changed: Changed) -> None:
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


def _importance(run: KeptRun, choice: Choice, maps: Maps) -> None:
    """Maps of an importance at several stages, for a score and a group of texts that the reader chooses."""
    scores, groups = maps.scores(run, choice), maps.groups(run, choice)
    if not scores:
        st.info("This audit kept no importance of heads.")
        return
    left, right = st.columns(2, gap="medium")
    with left:
        score = select("Score", scores, state.SCORE, lambda name: capital(maps.name(name)))
    with right:
        group = select("Measured on", groups, state.TICKET_GROUP, texts_label)
    first, card, _ = _places()
    with card:
        _one_head(run, maps.numbers)
    with first:
        for make in maps.wide:
            _selectable(run, make, choice, maps, score=score, group=group)
    for column, make in zip(st.columns(2, gap="large"), maps.beside, strict=True):
        with column:
            _selectable(
                run, make, choice, maps, **({"score": score, "group": group} if make in maps.selectable else {})
            )
    panels.look_ahead(run, maps.wide, choice, {make: {"score": score, "group": group} for make in maps.wide})


def _selectable(run: KeptRun, make: Callable[..., Any], choice: Choice, maps: Maps, **options: str) -> None:
    """A panel of which a head can be picked, where it is one of those."""
    can = make in maps.selectable
    key = state.key_of("map", make.__name__)
    clicked = panels.draw(made(run, make, choice, **options), key, selectable=can)
    if can:
        _follow(key, clicked)


def _follow(chart: str, clicked: object) -> None:
    """A new click in a chart moves the head picker to that head."""
    if panels.fresh(chart, clicked):
        state.put_later(state.HEAD, int(clicked))
        st.rerun()


def _one_head(run: KeptRun, numbers: Callable[..., Any]) -> None:
    st.subheader("What do we know about one head?", anchor=False)
    panels.table(made(run, numbers, _pick_head(run)))
    st.caption(words.COUNTING)


def _pick_head(run: KeptRun, **more: Any) -> int:
    """The head picker."""
    n_layers, n_heads = run.meta["model"]["n_layers"], run.meta["model"]["n_heads"]

    def named(unit: int) -> str:
        return capital(words.head_name(unit // n_heads, unit % n_heads))

    help_text = "Or click a head in one of the charts."
    return select_number("Head", range(n_layers * n_heads), state.HEAD, named, help=help_text, **more)


begin_app()
with boundary():
    page()

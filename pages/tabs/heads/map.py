"""Map: which heads add to the bias or matter to the task, and which were cut; a click tells about
one head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from engine.report.charts.panel import Choice
from engine.report.contract import Effects, Maps
from engine.report.tracks import track_of
from pages.shared import panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, select, texts_label
from pages.shared.navigation import Tab
from pages.shared.one_head import about, numbers, walk

PICTURE, BIAS, PERPLEXITY = (
    state.key_of("map", name) for name in ("picture", "bias", "perplexity")
)


def draw(run: KeptRun, choice: Choice) -> None:
    maps = track_of(run).maps
    if isinstance(maps, Effects):
        _effects(run, choice, maps)
    elif maps:
        _importance(run, choice, maps)


def _effects(run: KeptRun, choice: Choice, maps: Effects) -> None:
    """What each head does to bias and perplexity, and the card of one head."""
    first, card, rest = _places()
    for key in (
        PICTURE,
        BIAS,
        PERPLEXITY,
    ):  # before anything is drawn: drawing twice would double the wait
        clicked = panels.selected(state.value_of(key))
        if panels.fresh(key, clicked):
            state.put(state.HEAD, int(clicked))
    with card:
        unit = walk(run, made(run, maps.ranked, choice))
        about(run, choice, maps, unit, is_short=True)
    for place, make, key in (
        (first, maps.picture, PICTURE),
        (rest, maps.bias, BIAS),
        (rest, maps.quality, PERPLEXITY),
    ):
        with place:
            panels.draw(made(run, make, choice, unit=unit), key, selectable=True)
    panels.look_ahead(run, (maps.picture,), choice, {maps.picture: {"unit": unit}})


def _places() -> tuple[Any, Any, Any]:
    """Where the first map goes, the card of a head beside it (below it on a narrow screen), and all
    other charts. The card stays in sight while these are read."""
    with st.container(key=state.EXPLORER):
        return st.container(), st.container(key=state.HEAD_CARD, gap="small"), st.container()


def _importance(run: KeptRun, choice: Choice, maps: Maps) -> None:
    """Maps of an importance at several stages, for a score and a group of texts that the reader
    chooses."""
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
        numbers(run, maps.numbers)
    with first:
        for make in maps.wide:
            _selectable(run, make, choice, maps, score=score, group=group)
    for column, make in zip(st.columns(2, gap="large"), maps.beside, strict=True):
        with column:
            _selectable(
                run,
                make,
                choice,
                maps,
                **({"score": score, "group": group} if make in maps.selectable else {}),
            )
    panels.look_ahead(
        run, maps.wide, choice, {make: {"score": score, "group": group} for make in maps.wide}
    )


def _selectable(
    run: KeptRun, make: Callable[..., Any], choice: Choice, maps: Maps, **options: str
) -> None:
    """A panel of which a head can be picked, where it is one of those."""
    can = make in maps.selectable
    key = state.key_of("map", make.__name__)
    clicked = panels.draw(made(run, make, choice, **options), key, selectable=can)
    if can:
        _follow(key, clicked)


def _follow(chart: str, clicked: Any) -> None:
    """A new click in a chart moves the head picker to that head."""
    if panels.fresh(chart, clicked):
        state.put_later(state.HEAD, int(clicked))
        st.rerun()


TAB = Tab("Map", draw)

"""Head scores: which heads add to the bias or matter to the task, which were cut, and the numbers of one head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from engine.core import words
from engine.report.charts.panel import Choice
from engine.report.contract import Effects, Make, Maps
from engine.report.tracks import track_of
from pages.shared import panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, choose, select, texts_label
from pages.shared.frame import begin_app, boundary, heading, need_run

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
    """What each head does to bias and perplexity."""
    clicked = panels.draw(made(run, maps.picture, choice), PICTURE, selectable=True)
    _follow(PICTURE, clicked)
    left, right = st.columns(2, gap="large")
    with left:
        clicked = panels.draw(made(run, maps.bias, choice), BIAS, selectable=True)
        _follow(BIAS, clicked)
    with right:
        clicked = panels.draw(made(run, maps.quality, choice), PERPLEXITY, selectable=True)
        _follow(PERPLEXITY, clicked)
    _one_head(run, maps.numbers)
    _other_axes(run, choice, maps.bias)
    panels.look_ahead(run, (maps.picture,), choice)


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
    for make in maps.wide:
        _selectable(run, make, choice, maps, score=score, group=group)
    for column, make in zip(st.columns(2, gap="large"), maps.beside, strict=True):
        with column:
            _selectable(
                run, make, choice, maps, **({"score": score, "group": group} if make in maps.selectable else {})
            )
    _one_head(run, maps.numbers)
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
    n_layers, n_heads = run.meta["model"]["n_layers"], run.meta["model"]["n_heads"]

    def named(unit: int) -> str:
        return capital(words.head_name(unit // n_heads, unit % n_heads))

    unit = select(
        "Head", range(n_layers * n_heads), state.HEAD, named, help="Or click a head in one of the charts above."
    )
    panels.table(made(run, numbers, unit))
    st.caption(words.COUNTING)


def _other_axes(run: KeptRun, choice: Choice, make: Make) -> None:
    others = [axis for axis in run.meta["request"]["axes"] if axis != choice.axis]
    if not others:
        return
    st.divider()
    columns = st.columns(2, gap="large")
    for index, axis in enumerate(others):
        with columns[index % 2]:
            panels.draw(made(run, make, replace(choice, axis=axis)), state.key_of("map", axis))


begin_app()
with boundary():
    page()

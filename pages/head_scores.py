"""Head scores: which heads add to the bias, which the model needs, which were cut, and the numbers of one head."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from engine import words
from engine.export.panels import heads
from engine.export.panels.base import Choice
from pages.shared import panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, choose, select
from pages.shared.frame import begin_app, boundary, heading, need_run

PICTURE, BIAS, PERPLEXITY = (state.key_of("map", name) for name in ("picture", "bias", "perplexity"))


def page() -> None:
    heading("head_scores")
    run = need_run("head_scores")
    choice = choose(run)
    clicked = panels.draw(made(run, heads.fasp_picture, choice), PICTURE, selectable=True)
    _follow(PICTURE, clicked, run)
    left, right = st.columns(2, gap="large")
    with left:
        clicked = panels.draw(made(run, heads.head_map, choice, score="z_bias"), BIAS, selectable=True)
        _follow(BIAS, clicked, run)
    with right:
        clicked = panels.draw(made(run, heads.head_map, choice, score="z_ppl"), PERPLEXITY, selectable=True)
        _follow(PERPLEXITY, clicked, run)
    _one_head(run)
    _other_axes(run, choice)
    panels.look_ahead(run, (heads.fasp_picture,), choice)


def _follow(chart: str, clicked: object, run: KeptRun) -> None:
    """A new click in a chart moves the head picker to that head."""
    if panels.fresh(chart, clicked):
        state.put_later(state.HEAD, int(clicked))
        st.rerun()


def _one_head(run: KeptRun) -> None:
    st.subheader("What do we know about one head?", anchor=False)
    n_layers, n_heads = run.meta["model"]["n_layers"], run.meta["model"]["n_heads"]

    def named(unit: int) -> str:
        return capital(words.head_name(unit // n_heads, unit % n_heads))

    unit = select(
        "Head", range(n_layers * n_heads), state.HEAD, named, help="Or click a head in one of the charts above."
    )
    panels.table(made(run, heads.head_numbers, unit))
    st.caption(words.COUNTING)


def _other_axes(run: KeptRun, choice: Choice) -> None:
    others = [axis for axis in run.meta["request"]["axes"] if axis != choice.axis]
    if not others:
        return
    st.divider()
    columns = st.columns(2, gap="large")
    for index, axis in enumerate(others):
        with columns[index % 2]:
            panels.draw(
                made(run, heads.head_map, replace(choice, axis=axis), score="z_bias"), state.key_of("map", axis)
            )


begin_app()
with boundary():
    page()

"""Which heads: does the score choose better ones than chance, which survive, and in which order do
they go?"""

from __future__ import annotations

import streamlit as st

from engine.report.charts.panel import Choice
from engine.tracks.text_classifiers.panels import chance, help, lookup, survival, truth
from pages.shared import panels
from pages.shared.cache import KeptRun, made
from pages.shared.navigation import Tab
from pages.shared.safe import plain

SHOWN = (
    chance.random_masks,
    help.score_difference,
    truth.score_truth,
    survival.survival,
    survival.cut_order,
)


def draw(run: KeptRun, choice: Choice) -> None:
    panels.beside(run, choice, survival.survival, survival.cut_order)
    panels.draw(made(run, help.score_difference, choice))
    panels.draw(made(run, chance.random_masks, choice, group=""))
    panels.draw(made(run, truth.score_truth, choice))
    if proof := lookup.proof_said(run):
        st.caption(plain(proof))
    panels.look_ahead(run, SHOWN, choice, {chance.random_masks: {"group": ""}})


TAB = Tab("Which heads", draw)

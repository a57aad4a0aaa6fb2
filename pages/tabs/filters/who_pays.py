"""Who pays: every subgroup at every speedup, and whether the performance-weighted loss helps it."""

from __future__ import annotations

import streamlit as st

from engine.report.charts.panel import Choice
from engine.tracks.image_classifiers.panels import ablation, loss_share, pw, speedup
from pages.shared import panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import choose_reading, segmented
from pages.shared.navigation import Tab

SHOW = {"change": "Change since the dense model", "level": "Level"}
SHOWN = (speedup.groups_along_speedup, pw.pw_difference, ablation.ablation, loss_share.loss_share)


def draw(run: KeptRun, choice: Choice) -> None:
    with st.container(horizontal=True, gap="medium"):
        choice = choose_reading(run, choice)
        show = segmented("Show", list(SHOW), state.SHOW, SHOW.__getitem__)
    panels.draw(made(run, speedup.groups_along_speedup, choice, show=show))
    _losses(run, choice)
    panels.look_ahead(run, SHOWN, choice, {speedup.groups_along_speedup: {"show": show}})


def _losses(run: KeptRun, choice: Choice) -> None:
    """The PW loss: does it help, which part of it, which images it looks at. What was not run is
    not offered."""
    panels.draw(made(run, pw.pw_difference, choice))
    if len(made(run, ablation.switches)):
        panels.draw_folded(made(run, ablation.ablation, choice), "ablation")
    if made(run, loss_share.has_loss_share, choice):
        panels.draw_folded(made(run, loss_share.loss_share, choice), "loss_share")


TAB = Tab("Who pays", draw)

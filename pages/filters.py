"""Filters: which subgroup pays at which speedup, does the PW loss help it, what is cut, which images changed class."""

from __future__ import annotations

import streamlit as st

from engine.report.charts import classifier_changed, cost, filter_layers
from engine.report.charts.panel import Choice
from engine.tracks.image_classifiers.panels import ablation, loss_share, pw, scores, speed, speedup
from pages.shared import panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.changed_images import changed_images, one_repeat
from pages.shared.controls import choose, choose_reading, segmented
from pages.shared.frame import begin_app, boundary, heading, need_run

SHOW = {"change": "Change since the dense model", "level": "Level"}
SHOWN = (
    speedup.groups_along_speedup,
    pw.pw_difference,
    filter_layers.layer_survival,
    filter_layers.layers_by_speedup,
    scores.score_map,
    classifier_changed.changed_by_group,
    classifier_changed.gallery,
    speed.speed,
    cost.cost,
    ablation.ablation,
    loss_share.loss_share,
)
OF_A_TRIAL = (scores.score_map, classifier_changed.changed_by_group, classifier_changed.gallery)


def page() -> None:
    heading("filters")
    run = need_run("filters")
    choice = choose(run)
    with st.container(horizontal=True, gap="medium"):
        choice = choose_reading(run, choice)
        show = segmented("Show", list(SHOW), state.SHOW, SHOW.get)
    panels.draw(made(run, speedup.groups_along_speedup, choice, show=show))
    _losses(run, choice)
    left, right = st.columns(2, gap="large")
    with left:
        panels.draw(made(run, filter_layers.layer_survival, choice))
    with right:
        panels.draw(made(run, filter_layers.layers_by_speedup, choice))
    trial = _one_trial(run, choice)
    st.divider()
    left, right = st.columns(2, gap="large")
    with left:
        panels.draw(made(run, speed.speed, choice))
    with right:
        panels.draw(made(run, cost.cost, choice))
    options = {speedup.groups_along_speedup: {"show": show}}
    panels.look_ahead(run, SHOWN, choice, options | {make: {"trial": trial} for make in OF_A_TRIAL})


def _losses(run: KeptRun, choice: Choice) -> None:
    """The PW loss: does it help, which part of it, which images it looks at. What was not run is not offered."""
    panels.draw(made(run, pw.pw_difference, choice))
    if len(made(run, ablation.switches)):
        panels.draw_folded(made(run, ablation.ablation, choice), "ablation")
    if made(run, loss_share.has_loss_share, choice):
        panels.draw_folded(made(run, loss_share.loss_share, choice), "loss_share")


def _one_trial(run: KeptRun, choice: Choice) -> int:
    """Scores and images of one trial; its number."""
    st.divider()
    trial = one_repeat(run, choice, "Scores and images")
    if trial is None:
        panels.draw(made(run, scores.score_map, choice))
        return 0
    panels.draw(made(run, scores.score_map, choice, trial=trial))
    changed_images(run, choice, trial)
    return trial


begin_app()
with boundary():
    page()

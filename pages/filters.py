"""Filters: which subgroup pays at which speedup, does the PW loss help it, what is cut, which images changed class."""

from __future__ import annotations

import math

import streamlit as st

from engine import words
from engine.export import say
from engine.export.panels import (
    classifier_lookup,
    cost,
    filters_ablation,
    filters_changed,
    filters_layers,
    filters_loss_share,
    filters_pw,
    filters_scores,
    filters_speed,
    filters_speedup,
)
from engine.export.panels.base import Choice
from pages.shared import panels, safe, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, choose, choose_reading, segmented, select
from pages.shared.frame import begin_app, boundary, heading, need_run
from pages.shared.safe import plain

SHOW = {"change": "Change since the dense model", "level": "Level"}
EVERY = "(all)"
KINDS = {"": "All changes", "wrong": "Newly wrong", "right": "Newly right"}
PER_PAGE = 48
"""Pictures at a time."""
ONE_TRIAL = "Scores and images below are those of one trial: a mean over trials would be of no model."
SHOWN = (
    filters_speedup.groups_along_speedup,
    filters_pw.pw_difference,
    filters_layers.layer_survival,
    filters_layers.layers_by_speedup,
    filters_scores.score_map,
    filters_changed.changed_by_group,
    filters_changed.gallery,
    filters_speed.speed,
    cost.cost,
    filters_ablation.ablation,
    filters_loss_share.loss_share,
)
OF_A_TRIAL = (filters_scores.score_map, filters_changed.changed_by_group, filters_changed.gallery)


def page() -> None:
    heading("filters")
    run = need_run("filters")
    choice = choose(run)
    with st.container(horizontal=True, gap="medium"):
        choice = choose_reading(run, choice)
        show = segmented("Show", list(SHOW), state.SHOW, SHOW.get)
    panels.draw(made(run, filters_speedup.groups_along_speedup, choice, show=show))
    _losses(run, choice)
    left, right = st.columns(2, gap="large")
    with left:
        panels.draw(made(run, filters_layers.layer_survival, choice))
    with right:
        panels.draw(made(run, filters_layers.layers_by_speedup, choice))
    trial = _one_trial(run, choice)
    st.divider()
    left, right = st.columns(2, gap="large")
    with left:
        panels.draw(made(run, filters_speed.speed, choice))
    with right:
        panels.draw(made(run, cost.cost, choice))
    options = {filters_speedup.groups_along_speedup: {"show": show}}
    panels.look_ahead(run, SHOWN, choice, options | {make: {"trial": trial} for make in OF_A_TRIAL})


def _losses(run: KeptRun, choice: Choice) -> None:
    """The PW loss: does it help, which part of it, whom it looks at. What was not run is not offered."""
    panels.draw(made(run, filters_pw.pw_difference, choice))
    if len(made(run, filters_ablation.switches)):
        panels.draw_folded(made(run, filters_ablation.ablation, choice), "ablation")
    if made(run, filters_loss_share.has_loss_share, choice):
        panels.draw_folded(made(run, filters_loss_share.loss_share, choice), "loss_share")


def _one_trial(run: KeptRun, choice: Choice) -> int:
    """Scores and images of one trial; its number."""
    trials = [int(seed) for seed in made(run, classifier_lookup.trials_of, choice)["seed"]]
    st.divider()
    if not trials:
        panels.draw(made(run, filters_scores.score_map, choice))
        return 0
    with st.container(width=320):
        trial = select("Trial", trials, state.TRIAL, lambda number: f"Trial {number}", help=ONE_TRIAL)
    panels.draw(made(run, filters_scores.score_map, choice, trial=trial))
    panels.draw(made(run, filters_changed.changed_by_group, choice, trial=trial))
    _gallery(run, choice, trial)
    return trial


def _gallery(run: KeptRun, choice: Choice, trial: int) -> None:
    """The images behind the counts: before, after, truth."""
    if not (run.has("predictions") and run.has("images")):
        return
    every = made(run, filters_changed.gallery, choice, trial=trial)
    st.subheader("Which images are these?", anchor=False)
    if every.empty:
        st.markdown("No test image changed class in this trial.")
        return
    left, middle, right = st.columns([4, 5, 3], gap="medium", vertical_alignment="bottom")
    with left:
        groups = [EVERY, *sorted(set(every["group"]) - {""})]
        group = select("Subgroup", groups, state.CHANGED_GROUP, _group_label)
    with middle:
        kinds = {**KINDS, **({"other": "Wrong either way"} if (every["kind"] == "other").any() else {})}
        kind = segmented("What happened", list(kinds), state.CHANGED_KIND, kinds.get)
    rows = every[((every["group"] == group) | (group == EVERY)) & ((every["kind"] == kind) | (kind == ""))]
    last = max(1, math.ceil(len(rows) / PER_PAGE))
    with right:
        number = select(f"Page of {last}", list(range(1, last + 1)), state.GALLERY_PAGE)
    shown = rows.iloc[(number - 1) * PER_PAGE : number * PER_PAGE]
    st.caption(plain(_counted(rows, shown)))
    safe.gallery([_shot(run, row, group == EVERY) for row in shown.to_dict("records")])


def _group_label(group: str) -> str:
    return "All subgroups" if group == EVERY else capital(words.group_name(group))


def _counted(rows: object, shown: object) -> str:
    some = f"{len(shown)} of {len(rows)}" if len(shown) < len(rows) else f"{len(rows)}"
    kept = int(shown["png"].notna().sum())
    text = f"{some} {'image' if len(rows) == 1 else 'images'} that changed class, newly wrong before newly right."
    if kept < len(shown):
        text += f" Pictures were kept of {kept} of them."
    return f"{text} Single images prove nothing: read them beside the intervals above."


def _shot(run: KeptRun, row: dict, named: bool) -> safe.Shot:
    classes = run.meta["data"]["classes"]
    truth, before, after = (str(classes[int(row[name])]) for name in ("label", "before", "after"))
    sure = f"{say.percent(round(row['sure_before'], 2))} \u2192 {say.percent(round(row['sure_after'], 2))} sure"
    title = {"wrong": "\u2717 newly wrong", "right": "\u2713 newly right"}.get(row["kind"], "wrong either way")
    tone = {"wrong": "bad", "right": "good"}.get(row["kind"], "")
    group = (_group_label(row["group"]),) if named and row["group"] else ()
    return safe.Shot(row["png"], title, (f"{before} \u2192 {after}", f"truth: {truth}", sure, *group), tone)


begin_app()
with boundary():
    page()

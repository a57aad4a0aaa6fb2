"""Training: can one training make a model sparse and fair? Finished audits, and those that run
now."""

from __future__ import annotations

import streamlit as st

from engine.report.charts import lookup
from engine.report.charts.by_group import levelling_down, paid_by_group
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels import curve, differences, effort, training_curves
from engine.tracks.fair_training.panels import curve as fair
from pages.shared import frame, jobs, panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.controls import capital, choose_reading, is_dark, line, method_label, segmented
from pages.shared.navigation import Tab
from pages.shared.safe import plain
from pages.tabs.layers import LAYERS

TRACK = "fair_training"
EVERY = 3.0
"""Seconds between two drawings: three charts are more work than a line of text, and a click waits
for them."""
COUNTED = {"examples": "Images read", "iterations": "Weight updates", "seconds": "Seconds"}
"""The first is the usual: as many updates of BiFP read more images."""


def page() -> None:
    from engine.audit.jobs import list_jobs

    # Jobs that run or wait; one that ends while it is watched stays until the page is drawn again.
    moving = [job.job_id for job in list_jobs(jobs.store()) if job.status in frame.MOVING]
    moving = [job_id for job_id in moving if jobs.track_of_job(job_id) == TRACK]
    for job_id in moving:
        watch(job_id, Choice("", "", 0.0, dark=is_dark()))
    if moving:
        st.divider()
    frame.tabbed("training", TABS)


@st.fragment(run_every=EVERY)
def watch(job_id: str, choice: Choice) -> None:
    from engine.audit.jobs import job_state, live_points

    frame.leave()
    with frame.boundary():
        jobs.draw(job_state(jobs.store(), job_id), "live")
        points = live_points(jobs.store(), job_id)
        panels.draw(training_curves.live(points, choice), state.key_of("live", job_id))


def family_of(run: KeptRun) -> str:
    """Which of the methods of fair training the charts show."""
    named = {name: own.FAIR_FAMILIES[name].name for name in fair.families(run)}
    return segmented("Methods shown", named, state.FAMILY)


def result(run: KeptRun, choice: Choice) -> None:
    """Who stays accurate as more is cut, and how far apart the subgroups are."""
    with line():
        family = family_of(run)
        choice = choose_reading(run, choice)
    options = {curve.fair_curve: {"family": family}}
    panels.show(run, choice, curve.fair_curve, (paid_by_group, levelling_down), options=options)
    with st.expander("What do these methods do?", icon=":material/help:"):
        for name in fair.shown_of(made(run, lookup.methods), family, choice.method):
            st.markdown(
                f"**{plain(method_label(name))}**: {track_of(run).methods.definition(name)}"
            )


def against_others(run: KeptRun, choice: Choice) -> None:
    """BiFP beside other methods at the same share cut, what more fairness costs, and the paths
    between. Where surface and paths were not asked for, one of them says how to get both."""
    choice = choose_reading(run, choice)
    panels.draw(made(run, differences.bifp_against, choice))
    panels.draw(made(run, differences.tradeoff, choice))
    if made(run, training_curves.has_surface, choice):
        named = {name: capital(label) for name, label in training_curves.SHOWN.items()}
        show = segmented("Colour shows", named, state.SURFACE)
        panels.draw(made(run, training_curves.surface, choice, show=show))
        panels.draw(made(run, training_curves.path, choice))
    else:
        make = (
            training_curves.path
            if made(run, training_curves.has_path, choice)
            else training_curves.surface
        )
        panels.draw(made(run, make, choice))
    panels.look_ahead(run, (differences.bifp_against,), choice)


def of_effort(run: KeptRun, choice: Choice) -> None:
    """How much training it takes, how that went, and what the cut saves."""
    with line():
        by = segmented("Training counted in", COUNTED, state.EFFORT)
        family = family_of(run)
        choice = choose_reading(run, choice)
    options = {effort.effort: {"by": by, "family": family}}
    shown = (effort.effort, training_curves.training, curve.saved)
    panels.show(run, choice, *shown, options=options)


TABS = (
    Tab("Result", result),
    Tab("Against others", against_others),
    Tab("Effort", of_effort),
    LAYERS,
)
frame.draw_page(page)

"""Training: can one training make a model sparse and fair? Finished audits, and those that run
now."""

from __future__ import annotations

import streamlit as st

from engine.report.charts.panel import Choice
from engine.tracks.fair_training.panels import live
from pages.shared import frame, jobs, navigation, panels, state
from pages.shared.controls import choose, is_dark
from pages.shared.frame import begin_app, boundary, heading, need_run

TRACK = "fair_training"
EVERY = 3.0
"""Seconds between two drawings: three charts are more work than a line of text, and a click waits
for them."""


def page() -> None:
    heading("training")
    watch()
    run = need_run("training")
    navigation.draw("training", run, choose(run))


def watch() -> None:
    """Draw the jobs that run or wait; one that ends while it is watched stays until the page is
    drawn again."""
    moving = _moving()
    if moving:
        for job_id in moving:
            _one(job_id, Choice("", "", 0.0, dark=is_dark()))
        st.divider()


def _moving() -> list[str]:
    """Ids of the jobs of fair training that run or wait, the newest first."""
    from engine.audit.jobs import list_jobs

    moving = [job.job_id for job in list_jobs(jobs.store()) if job.status in jobs.MOVING]
    return [job_id for job_id in moving if jobs.track_of_job(job_id) == TRACK]


@st.fragment(run_every=EVERY)
def _one(job_id: str, choice: Choice) -> None:
    from engine.audit.jobs import job_state, live_points

    frame.leave()
    with frame.boundary():
        jobs.draw(job_state(jobs.store(), job_id), "live")
        panels.draw(
            live.live(live_points(jobs.store(), job_id), choice), state.key_of("live", job_id)
        )


begin_app()
with boundary():
    page()

"""Fair training: accuracy and gaps against sparsity, BiFP beside the others, trade-off, cost, curves, loss surface."""

from __future__ import annotations

import contextlib

import streamlit as st

from engine.core.errors import PruneAuditError
from engine.report.charts import classifier_changed, classifier_groups, filter_layers, levelling
from engine.report.charts import lookup as shared
from engine.report.charts.panel import Choice
from engine.report.tracks import track_of
from engine.tracks.fair_training import words as own
from engine.tracks.fair_training.panels import (
    curve,
    differences,
    effort,
    live,
    lookup,
    path,
    saved,
    surface,
    tradeoff,
    training_curves,
)
from pages.shared import frame, jobs, panels, state
from pages.shared.cache import KeptRun, made
from pages.shared.changed_images import changed_images, one_repeat
from pages.shared.controls import capital, choose, choose_reading, is_dark, method_label, segmented
from pages.shared.frame import begin_app, boundary, heading, need_run
from pages.shared.safe import plain

SHOWN = (
    classifier_groups.paid_by_group,
    levelling.levelling_down,
    differences.bifp_against,
    training_curves.training,
    filter_layers.layer_survival,
    filter_layers.layers_by_speedup,
    saved.saved,
)
OF_A_SEED = (classifier_changed.changed_by_group, classifier_changed.gallery)
COUNTED = {"examples": "Images read", "iterations": "Weight updates", "seconds": "Seconds"}
"""The first is the usual: as many updates of BiFP read more images."""


TRACK = "fair_training"
MOVING = ("running", "queued")
EVERY = 3.0
"""Seconds between two drawings: three charts are more work than a line of text, and a click waits for them."""


def watch() -> None:
    """Draw the jobs that run or wait; one that ends while it is watched stays until the page is drawn again."""
    moving = _moving()
    if moving:
        for job_id in moving:
            _one(job_id, Choice("", "", 0.0, dark=is_dark()))
        st.divider()


def _moving() -> list[str]:
    """Ids of the jobs of fair training that run or wait, the newest first."""
    from engine.audit.jobs import job_request, list_jobs

    found = []
    for job in list_jobs(jobs.store()):
        if job.status in MOVING:
            with contextlib.suppress(PruneAuditError):
                if getattr(job_request(jobs.store(), job.job_id), "track", "") == TRACK:
                    found.append(job.job_id)
    return found


@st.fragment(run_every=EVERY)
def _one(job_id: str, choice: Choice) -> None:
    from engine.audit.jobs import job_state, live_points

    with frame.boundary():
        jobs.draw(job_state(jobs.store(), job_id), "live")
        panels.draw(live.live(live_points(jobs.store(), job_id), choice), state.key_of("live", job_id))


def page() -> None:
    heading("fair_training")
    watch()
    run = need_run("fair_training")
    choice = choose(run)
    with st.container(horizontal=True, gap="medium"):
        family = segmented("Methods shown", lookup.families(run), state.FAMILY, _family)
        choice = choose_reading(run, choice)
    panels.draw(made(run, curve.fair_curve, choice, family=family))
    _definitions(run, family, choice)
    _beside(run, choice, classifier_groups.paid_by_group, levelling.levelling_down)
    panels.draw(made(run, differences.bifp_against, choice))
    panels.draw(made(run, tradeoff.tradeoff, choice))
    st.divider()
    by = segmented("Training counted in", list(COUNTED), state.EFFORT, COUNTED.get)
    panels.draw(made(run, effort.effort, choice, by=by, family=family))
    panels.draw(made(run, training_curves.training, choice))
    st.divider()
    _beside(run, choice, filter_layers.layer_survival, filter_layers.layers_by_speedup)
    panels.draw(made(run, saved.saved, choice))
    st.divider()
    seed = one_repeat(run, choice, "Images")
    if seed is not None:
        changed_images(run, choice, seed)
        st.divider()
    _around(run, choice)
    options = {curve.fair_curve: {"family": family}, effort.effort: {"by": by, "family": family}}
    options |= dict.fromkeys(OF_A_SEED, {"trial": seed or 0})
    panels.look_ahead(run, (*options, *SHOWN), choice, options)


def _beside(run: KeptRun, choice: Choice, *makes: object) -> None:
    for column, make in zip(st.columns(len(makes), gap="large"), makes, strict=True):
        with column:
            panels.draw(made(run, make, choice))


def _around(run: KeptRun, choice: Choice) -> None:
    """Surface and paths; where they were not asked for, one of them says how to get both."""
    if not made(run, surface.has_surface, choice):
        make = path.path if made(run, path.has_path, choice) else surface.surface
        panels.draw(made(run, make, choice))
        return
    show = segmented("Colour shows", list(surface.SHOWN), state.SURFACE, _shown)
    panels.draw(made(run, surface.surface, choice, show=show))
    panels.draw(made(run, path.path, choice))


def _definitions(run: KeptRun, family: str, choice: Choice) -> None:
    """What the methods of the charts do, in a sentence each."""
    offered = made(run, shared.methods)
    with st.expander("What do these methods do?", icon=":material/help:"):
        for name in lookup.shown_of(offered, family, choice.method):
            st.markdown(f"**{plain(method_label(name))}**: {track_of(run).definition(name)}")


def _family(name: str) -> str:
    return own.FAIR_FAMILIES[name].name


def _shown(name: str) -> str:
    return capital(surface.SHOWN[name])


begin_app()
with boundary():
    page()

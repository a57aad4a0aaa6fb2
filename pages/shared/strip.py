"""A line on every page about audits under way, and the way to the result of one that has ended
meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from engine.core import words
from pages.shared import cache, state
from pages.shared.safe import escaped
from pages.shared.wall import boundary

if TYPE_CHECKING:
    from engine.audit.jobs import JobState

EVERY = 3.0
"""Seconds between two looks. Without a job there is no fragment, and no look but the one when a
page is drawn."""
MOVING = ("queued", "running")
MOST = 3
"""Jobs that are named; the page about jobs has all."""


def strip() -> None:
    """Drawn with the frame."""
    if _here():
        _redrawn(state.page_drawn())


def badge() -> str:
    """What the navigation adds to "Jobs": how many run or wait; "" for none."""
    number = sum(job.status in MOVING for job in cache.jobs())
    return f" ({number})" if number else ""


def _here() -> list[JobState]:
    """Jobs that move, and those that ended since this session saw them move and were not
    dismissed."""
    found = cache.jobs()
    moving = [job.job_id for job in found if job.status in MOVING]
    watched = state.keep(
        state.WATCHED, list(dict.fromkeys([*state.kept(state.WATCHED, []), *moving]))
    )
    return [job for job in found if job.job_id in watched]


def _redrawn(page: str) -> None:
    """The strip, redrawn by the clock. Its fragment has the page's name: a look that the browser
    asks for on a page that was left meanwhile must not be taken for one of the new page."""

    def look() -> None:
        _live()

    look.__qualname__ = f"strip on {page}"
    st.fragment(look, run_every=EVERY)()


def _live() -> None:
    if state.kept(state.GO_TO):
        st.rerun(scope="app")
    with boundary():
        here = _here()
        moving = [job.job_id for job in here if job.status in MOVING]
        if state.kept(state.MOVED, moving) != moving:
            state.keep(state.MOVED, moving)
            st.rerun(
                scope="app"
            )  # something began or ended: the navigation counts it, lists have one more
        state.keep(state.MOVED, moving)
        with st.container(key=state.LIVE, gap="xxsmall"):
            for job in here[:MOST]:
                _line(job)
            if len(here) > MOST:
                st.html(f'<p class="pa-live">and {len(here) - MOST} more, on the page Jobs</p>')


def _line(job: JobState) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        title = escaped(words.title_said(job.title, words.AXES))
        st.html(f'<p class="pa-live" role="status">{title}: {_said(job)}</p>', width="content")
        key = state.key_of("strip", job.job_id)
        if job.status == "done" and job.run_id:
            st.button("Open result", key=state.key_of(key, "open"), on_click=_open, args=(job,))
        if job.status not in MOVING:
            st.button(
                "Dismiss",
                key=state.key_of(key, "away"),
                type="tertiary",
                on_click=_dismiss,
                args=(job.job_id,),
            )


def _said(job: JobState) -> str:
    """Where a job stands, in a few words."""
    if job.status == "queued":
        return "waiting"
    if job.status != "running":
        return {"done": "finished", "interrupted": "was interrupted"}.get(
            job.status, escaped(job.status)
        )
    share = f" {min(100, round(100 * job.done / job.total))} %" if job.total else ""
    left = f", about {words.duration(job.eta)} left" if job.eta is not None else ""
    return escaped(f"running{share}{left}")


def _open(job: JobState) -> None:
    _dismiss(job.job_id)
    state.choose_run(str(job.run_id))
    state.go("summary")


def _dismiss(job_id: str) -> None:
    state.keep(state.WATCHED, [one for one in state.kept(state.WATCHED, []) if one != job_id])

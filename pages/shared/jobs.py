"""Audits in the background: start, watch, cancel, resume. Long work never runs in the page's own
process."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import streamlit as st

from engine.audit import jobs
from engine.audit.fields import fields_of
from engine.audit.jobs import JobState
from engine.audit.tracks import track_named
from engine.core import words
from engine.core.errors import Cancelled, Fault, PruneAuditError, RequestError
from engine.core.text import visible
from engine.core.types import Event, Hooks, Values, digest_of
from engine.resident import client
from engine.store.runs import Store, default_root
from pages.shared import form, frame, roots, state
from pages.shared.controls import button, capital
from pages.shared.frame import MOVING
from pages.shared.safe import boundary, plain, show_errors

EVERY = 1.5
"""Seconds between two looks at the jobs."""
STATUS = {
    "queued": "Waiting",
    "running": "Running",
    "done": "Finished",
    "failed": "Failed",
    "cancelled": "Cancelled",
    "interrupted": "Interrupted",
}
_NAMES = re.compile(r"[\w ,+@]+")
_SHARE = re.compile(r"-?\b\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)\b")
_END = re.compile(r"\b(from|above|to|below) ([01])\b(?!\.\d)")


def store() -> Store:
    """Where a user's own audits go."""
    return Store(default_root())


def start(
    request: dict[str, Any], faults: Sequence[Fault] = (), ray: str = "", memory: str = ""
) -> str:
    """Check the request and hand it to a background process; the job's id. ray: address of the
    cluster that computes it, "" for this machine; memory: what it may take, like "4G", "" for a
    share of what is free.

    RequestError carries every fault: those the form found (`faults`) and those the engine finds.
    """
    track = track_named(str(request.get("track") or ""))
    try:
        roots.refuse_outside(request)
        job_id = _ask({"request": request, "start": not faults, "ray": ray, "memory": memory})
    except RequestError as error:
        told = [in_the_forms_words(fault, track.name) for fault in error.faults]
        raise RequestError([*faults, *told]) from error
    if faults:
        raise RequestError(faults)
    for field in fields_of(track.part("request")):
        if field.accepted:
            field.accepted(request)
    return job_id


def in_the_forms_words(fault: Fault, track: str) -> Fault:
    """A fault of the engine as the form asks: percent where it does, and names of fields as their
    labels."""
    fields, where = fields_of(track_named(track).part("request")), fault.where
    if _NAMES.fullmatch(where):  # paths stay
        where = where.replace("_", " ")
    where = form.labels_of(fields).get(fault.where, where)
    if fault.where in [field.called for field in fields if field.percent]:
        return Fault(where, _percent(fault.what), _percent(fault.fix))
    return replace(fault, where=where)


def _percent(text: str) -> str:
    """ "1.5 is not allowed. Give numbers from 0 to below 1." -> "150 % is … from 0 to below 100 %."
    Counts stay: they have no point."""
    text = text.replace("Give numbers", "Give shares")
    text = _END.sub(lambda found: f"{found[1]} {100 * int(found[2])} %", text)
    text = re.sub(r"(?<=\d),(?=\d)", ", ", text)
    return _SHARE.sub(lambda found: f"{100 * float(found[0]):g} %", text)


def _ask(what: dict[str, Any]) -> str:
    """Have the engine check and start it: a check imports torch, which would slow every page. The
    job's id."""
    return client.ask("start", what, store())["job_id"]


@st.fragment(run_every=EVERY)
def watch() -> None:
    """All jobs of the user's store, redrawn while they move."""
    frame.leave()
    with boundary():
        found = jobs.list_jobs(store())
        if not found:
            st.markdown("No job yet. Start one under “New audit”.")
        for job in found:
            draw(job, "list")


@st.fragment(run_every=EVERY)
def one(job_id: str) -> None:
    """One job, redrawn while it moves."""
    frame.leave()
    with boundary():
        draw(jobs.job_state(store(), job_id), "one")


def draw(job: JobState, place: str) -> None:
    """One job: title, how far it is, what can be done with it."""
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            with st.container(gap="xxsmall"):
                st.text(frame.title_of(job.title))
                started = job.started[:16].replace("T", " ")
                st.caption(f"{STATUS.get(job.status, job.status)} · started {started} UTC")
            _action(job, place)
        if job.status == "queued" and job.message:
            st.progress(0.0, text=plain(job.message))
        elif job.status in MOVING:
            progress(job)
        elif job.message:
            st.text(visible(job.message))
        for text in (_note(job), *map(str, job.faults)):
            if text:
                st.text(visible(text))
        _resume_said(job)


def _note(job: JobState) -> str:
    """What is known of the job; not how long it was thought to take, once it says itself how long
    it takes."""
    said = job.note.splitlines()
    if job.eta is not None and job.phase != "predict":
        said = [
            line.partition(". ")[2] if line.startswith(words.PREDICTED) else line for line in said
        ]
    return "\n".join(filter(None, said))


def progress(work: JobState | Event | None, before: str = "Starting") -> None:
    """A bar, and in words what is being done, how far it is, and about how much longer it takes;
    `before` it has said anything."""
    if work is None:
        st.progress(0.0, text=before)
        return
    parts = [capital(str(work.phase).replace("_", " ")) or before]
    if work.what:
        parts.append(words.work_name(work.what))
    share = min(1.0, work.done / work.total) if work.total else 0.0
    if work.total:
        parts.append(f"{math.floor(100 * share)} % done")
    if work.eta is not None:
        parts.append(f"about {words.duration(work.eta)} left")
    st.progress(share, text=plain(", ".join(parts)))


def _action(job: JobState, place: str) -> None:
    """What can be done with a job. All of it in callbacks: a redraw that comes right after a click
    would lose it."""
    which = (place, job.job_id)
    if job.status in MOVING:
        button("Cancel", ("cancel", *which), _cancel, job.job_id, icon="stop")
    elif job.status == "done" and job.run_id:
        key = ("done", *which)
        button("Open result", key, state.open_run, job.run_id, icon="dashboard")
    else:
        # Asked without waiting: an engine that has to start takes a while, and that is said.
        given = {"job_id": job.job_id}
        work, key = work_of("start", given), ("resume", *which)
        waits = work is not None and work.running
        button("Resume", key, begin, "start", given, icon="replay", disabled=waits)


def _cancel(job_id: str) -> None:
    jobs.cancel(store(), job_id)
    st.toast("It stops at its next batch. What is finished is kept.")


def _resume_said(job: JobState) -> None:
    """That resuming is under way, or why it did not come to pass."""
    work = work_of("start", {"job_id": job.job_id})
    if work is None or job.status in (*MOVING, "done"):
        return
    if work.running:
        st.caption(
            "Resuming: waiting for the engine, which may have to start first (some 15 seconds) …"
        )
        return
    track, faults = track_of_job(job.job_id), work.faults
    if track:
        faults = tuple(in_the_forms_words(fault, track) for fault in faults)
    show_errors(filter(None, [*map(str, faults), work.message]))


def track_of_job(job_id: str) -> str:
    """The kind of audit that a job is for; "" where its request cannot be read."""
    with contextlib.suppress(PruneAuditError):
        return str(jobs.job_request(store(), job_id).track)
    return ""


# Questions to the engine that a page does not wait for: they go on when the page is left, and
# any page can look. A thread asks and only notes what it is told; it never calls Streamlit.

_log = logging.getLogger("pruneaudit")


@dataclass
class Work:
    """Work under way: what it was last told, what speaks against it, what came out."""

    event: Event | None = None
    faults: tuple[Fault, ...] = ()
    message: str = ""
    value: Any = None
    over: threading.Event = dataclasses.field(default_factory=threading.Event)
    stop: threading.Event = dataclasses.field(default_factory=threading.Event)

    @property
    def running(self) -> bool:
        return not self.over.is_set()

    def do(self, act: Callable[[Hooks], Any]) -> None:
        """Do it and wait, in a thread of its own."""
        try:
            self.value = act(Hooks(partial(setattr, self, "event"), self._check))
        except Cancelled:
            self.message = "Cancelled. Finished measurements are kept. Ask again to go on."
        except RequestError as error:
            self.faults = error.faults
        except PruneAuditError as error:
            self.message = str(error)
        except Exception:
            _log.exception("a question failed")
            self.message = (
                "The engine could not answer. The details are in the terminal where the app runs."
            )
        finally:
            self.over.set()

    def _check(self) -> None:
        if self.stop.is_set():
            raise Cancelled


WORKS: dict[str, Work] = {}
"""Questions by what was asked, of every browser."""


def _key(name: str, given: Values) -> str:
    return digest_of([str(default_root()), name, dict(given)])


def work_of(name: str, given: Values) -> Work | None:
    """The question as it stands, None where it was never asked. Equal questions are one."""
    return WORKS.get(_key(name, given))


def begin(name: str, given: Values, act: Callable[[Hooks], Any] | None = None) -> None:
    """Ask, or do what `act` says, unless the same is under way now."""
    known = work_of(name, given)
    if known and known.running:
        return
    work = WORKS[_key(name, given)] = Work()
    for one in WORKS.values():  # charts that were drawn before, which are large
        one.value = None
    act = act or partial(asked, name, given)
    threading.Thread(target=work.do, args=(act,), daemon=True).start()


def asked(name: str, given: Values, hooks: Hooks) -> None:
    roots.refuse_outside(given)
    client.ask(name, given, hooks=hooks)


def told(work: Work | None) -> None:
    """What spoke against it, and what else it said at its end; nothing where nobody asked."""
    if work:
        show_errors(map(str, work.faults))
        if work.message:
            st.warning(plain(work.message), icon=":material/info:")


def watched(work: Work, which: tuple[str, ...], before: str) -> None:
    """How far it is, redrawn until it is over; then the whole page, which finds what came out."""

    @st.fragment(run_every=EVERY / 3)
    def look() -> None:
        if not work.running:
            st.rerun()
        progress(work.event, before)
        button("Cancel", which, work.stop.set, icon="stop")

    look()

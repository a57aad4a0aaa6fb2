"""Audits that outlive the page that asked for them: one process each, one per equal request,
cancellable, resumable.

A job is a folder below the store: request.json, state.json, log.txt, points.jsonl where it trains
with curves. Its process holds a lock in it while it lives; a file `cancel` asks it to stop. Whether
a job runs is read from the lock, never from what it last wrote, so a killed process shows as
interrupted. Where an engine serves the store (engine/resident/lines.py), jobs wait in line there,
one at a time per device. No torch here: pages read it.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.audit.fields import type_faults
from engine.audit.request import Growth
from engine.audit.tracks import request_from, track_of_request
from engine.audit.turn import Aside, Pulse, device_named
from engine.core import words
from engine.core.errors import (
    Cancelled,
    Fault,
    PruneAuditError,
    RequestError,
    StoreError,
    refusal,
    refuse,
    said_by,
)
from engine.core.files import (
    PROJECT,
    explained,
    held,
    json_able,
    locked,
    make_folder,
    safe_id,
    sweep,
    write_whole,
)
from engine.core.types import Event, Hooks, Values, digest_of
from engine.store.runs import Run, Store
from engine.store.sealed import DamagedError, read_document, write_document

if TYPE_CHECKING:
    import pandas as pd

    from engine.audit.request import Request
    from engine.audit.session import Executor

EARLY, LATE = -5.0, 60.0
"""Seconds since it was queued within which a job's process may still be on its way; a clock may
have been set back."""
QUIET = 0.3
"""Seconds between two looks at the cancel file, and between two writes of the state."""
SCHEMA = 1
STATE, REQUEST, SPARE = "state.json", "request.json", "spare"
SPARED = 1 << 16
"""Bytes set aside, so that a job can still say that the disk is full when it is."""
POINTS = "points.jsonl"
"""Rows of training curves, as a job learns them."""


@dataclass(frozen=True)
class JobState:
    """Where a job stands. status: queued, running, done, failed, cancelled or interrupted. Times
    are ISO 8601, UTC.

    `faults` says what was wrong with the request; `run_id` is known once the run is finished; `eta`
    in seconds.
    """

    job_id: str
    title: str
    status: str
    phase: str = ""
    what: str = ""
    done: int = 0
    total: int = 0
    eta: float | None = None
    message: str = ""
    note: str = ""
    run_id: str | None = None
    faults: tuple[Fault, ...] = ()
    started: str = ""
    updated: str = ""
    device: str = ""
    """As the request says it: "auto" where it leaves that open."""
    ray: str = ""
    """Address of the Ray cluster that computes it; "" where this machine does, or what
    PRUNEAUDIT_RAY names."""
    memory: str = ""
    """What it may take, like "4G"; "" where that is left to PRUNEAUDIT_MEMORY or to what is free.
    """


STATUSES = ("queued", "running", "done", "failed", "cancelled", "interrupted")


def state_from(found: Values, job_id: str) -> JobState:
    """A state as it was written, fields that nobody knows left out. DamagedError where it is none
    of this job."""
    values = {field.name: found[field.name] for field in fields(JobState) if field.name in found}
    with contextlib.suppress(TypeError):
        values["faults"] = tuple(map(Fault.from_dict, values.get("faults", ())))
        state = JobState(**values)
        words = (getattr(state, field.name) for field in fields(state) if field.type == "str")
        sound = state.job_id == job_id and state.status in STATUSES
        sound &= all(isinstance(word, str) for word in words)
        sound &= all(type(value) is int for value in (state.done, state.total))
        sound &= isinstance(state.eta, int | float | None) and isinstance(state.run_id, str | None)
        if sound:
            return state
    raise DamagedError(f"job {job_id} is damaged: its {STATE} holds what no job writes.")


def job_id_of(request: Request | Growth) -> str:
    """Requests for the same audit are one job, whatever they call it and however often it is
    begun."""
    return "job-" + digest_of(request.identity)[:16]


def check(request: Request | Growth, store: Store, faults: Sequence[Fault] = ()) -> None:
    """RequestError with all that is wrong together: `faults` found before, the request's, the
    store's.

    Nothing is written. StoreError where only the store is at fault.
    """
    found = list(faults)
    try:
        track = track_of_request(request)
        if isinstance(request, Growth):
            track.part("check_growth")(request, store)
        else:
            track.part("validate")(request)
    except RequestError as error:
        found += error.faults
    check_store(store, found)


def check_store(store: Store, faults: Sequence[Fault]) -> None:
    """RequestError for `faults` and a store that cannot be written, together; StoreError for the
    store alone."""
    try:
        store.prove_writable(create=False)
    except StoreError as error:
        if not faults:
            raise
        faults = [*faults, Fault("store", str(error).removeprefix("store "), "")]
    refuse(faults)


def submit(
    request: Request | Growth, store: Store, ray: str | None = None, memory: str | None = None
) -> str:
    """Start the job unless it is running, and return its id. Submitting an interrupted job again
    resumes it.

    Where an engine serves the store the job waits in line there; elsewhere its process starts at
    once. ray: address of the cluster that shall compute it, "" for none; memory: what it may take;
    None: as when it was submitted before.
    """
    refuse(type_faults(request))
    store.prove_writable()
    job_id = job_id_of(request)
    folder = _prepare(store, job_id, request)
    moment, before = _now(), _said_before(folder)
    waits = before.status == "queued" and not (folder / "cancel").exists()
    if is_alive(folder) or (is_served(store) and waits):
        return job_id
    (folder / "cancel").unlink(missing_ok=True)
    state = JobState(
        job_id,
        _title(request),
        "queued",
        started=moment,
        updated=moment,
        device=request.device,
        ray=before.ray if ray is None else ray,
        memory=before.memory if memory is None else memory,
    )
    _write(folder, state)
    if not is_served(store):
        launch(store, job_id)
    return job_id


def launch(store: Store, job_id: str) -> subprocess.Popen:
    """The process of a job that was submitted, just started. It goes on when the one that started
    it ends."""
    folder = _folder(store, job_id)
    with (folder / "log.txt").open("ab") as log, (folder / "process").open("a") as mark:
        with contextlib.suppress(BlockingIOError):  # the process before it is about to end
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Note in the file that a job's process holds which queueing it is for,
            # so that its end is known at once.
            mark.truncate(0)
            mark.write(_said(folder).updated)
            mark.flush()
        return subprocess.Popen(
            [sys.executable, "-m", "engine.audit.worker", str(store.root), job_id],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(mark.fileno(),),  # held by that process as long as it lives
        )


def _is_gone(folder: Path, state: JobState) -> bool:
    """Whether the process that was started for a queued job has ended, whatever the clock says."""
    with contextlib.suppress(OSError, ValueError):
        return (folder / "process").read_text(encoding="utf-8") == state.updated and not is_up(
            folder
        )
    return False


def line_lock(store: Store) -> Path:
    """The file whose lock is held by the engine that starts the store's jobs one by one."""
    return store.jobs_folder / "line"


def is_served(store: Store) -> bool:
    """Whether an engine starts the store's jobs one by one."""
    return held(line_lock(store))


def cancel(store: Store, job_id: str) -> None:
    """Ask a job to stop; it does so at its next batch. What it finished is kept."""
    folder = _folder(store, job_id)
    with explained(folder):
        (folder / "cancel").touch()


def has_failed(folder: Path) -> bool:
    """Whether a job said so itself."""
    with contextlib.suppress(PruneAuditError, OSError):
        found = read_document(folder / STATE, f"job {folder.name}", SCHEMA)
        return state_from(found, folder.name).status == "failed"
    return False


def job_state(store: Store, job_id: str) -> JobState:
    """Where the job stands now. An id that is not there raises RequestError."""
    state = _now_of(store, _said(_folder(store, job_id)))
    waits = state.status == "queued" and is_served(store)
    return _with_place(state, _all(store)) if waits else state


def list_jobs(store: Store) -> list[JobState]:
    """All jobs, newest first."""
    found = _all(store)
    if any(state.status == "queued" for state in found) and is_served(store):
        return [_with_place(state, found) if state.status == "queued" else state for state in found]
    return found


def _all(store: Store) -> list[JobState]:
    """All jobs, newest first, those that wait without their place."""
    found = []
    for path in store.jobs_folder.glob(f"job-*/{STATE}"):
        with contextlib.suppress(PruneAuditError):  # one damaged job must not hide the others
            found.append(_now_of(store, _said(path.parent)))
    return sorted(found, key=lambda state: state.started, reverse=True)


def fail(store: Store, job_id: str, why: str) -> None:
    """Note that a job cannot go on, for one whose process said nothing."""
    folder = _folder(store, job_id)
    _write(folder, replace(_said(folder), status="failed", message=why, updated=_now()))


def _said(folder: Path) -> JobState:
    """What a job last wrote. RequestError where there is no such job; a job whose state is damaged
    can be resumed."""
    path = folder / STATE
    if not path.exists():
        what = f"{folder.name!r} is not in the store."
        raise refusal("job", what, "Look at the list of jobs.")
    try:
        return state_from(read_document(path, f"job {folder.name}", SCHEMA), folder.name)
    except StoreError as error:
        return _damaged(folder, str(error))


def _damaged(folder: Path, why: str) -> JobState:
    """A job of whose state nothing is left but its request, if that."""
    try:
        title = str(_asked(folder).get("title") or folder.name)
    except PruneAuditError as error:
        return JobState(
            folder.name,
            folder.name,
            "failed",
            message=f"{why} {error} It cannot be resumed: ask anew.",
        )
    return JobState(folder.name, title, "interrupted", message=f"{why} Start it again to resume.")


def _asked(folder: Path) -> Values:
    """The request as it was written. RequestError where there is no such job, DamagedError where it
    is not whole."""
    if not (folder / REQUEST).exists():
        raise refusal("job", f"{folder.name!r} is not in the store.", "Look at the list of jobs.")
    return read_document(folder / REQUEST, f"job {folder.name}", SCHEMA)


def _now_of(store: Store, state: JobState) -> JobState:
    """What a job last wrote, put right where its process is gone or never came."""
    folder = _folder(store, state.job_id)
    if state.status == "running" and (folder / "cancel").exists() and not is_alive(folder):
        return _ended(state, Cancelled())  # gone before it could say so
    if state.status == "running" and not is_alive(folder):
        return replace(
            state,
            status="interrupted",
            eta=None,
            message="Its process is gone. Start it again to resume.",
        )
    if state.status == "queued" and (folder / "cancel").exists():
        return _ended(state, Cancelled())
    on_its_way = EARLY <= _age(state.updated) <= LATE and not _is_gone(folder, state)
    if state.status == "queued" and not on_its_way and not is_up(folder) and not is_served(store):
        return replace(
            state,
            status="interrupted",
            message="It has not started. Start it again, or see its log.txt.",
        )
    return state


def _with_place(state: JobState, jobs: Sequence[JobState]) -> JobState:
    """A queued job that says how many are before it on its device."""
    others = [one for one in jobs if one.device == state.device and one.job_id != state.job_id]
    running = sum(one.status == "running" for one in others)
    queued = [one for one in others if one.status == "queued"]
    before = running + sum(
        (one.started, one.job_id) < (state.started, state.job_id) for one in queued
    )
    if not before:
        return state
    return replace(
        state,
        message=f"Waiting: {before} {'audit is' if before == 1 else 'audits are'} ahead of it.",
    )


def _said_before(folder: Path) -> JobState:
    """The state of a job that was submitted before; an empty one where there is none, or it cannot
    be read."""
    try:
        return _said(folder)
    except RequestError:
        return JobState(folder.name, "", "")


def live_points(store: Store, job_id: str) -> pd.DataFrame:
    """Training curves of a job as far as it is: one row per shard (what is trained, in words),
    phase and step.

    Further columns are float64: what is known at that step. A step that was taken again after an
    interruption counts once, as it was last. No rows where there are none.
    """
    import pandas as pd

    try:
        lines = (_folder(store, job_id) / POINTS).read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    rows = []
    for line in lines:
        with contextlib.suppress(ValueError):  # a line cut short by a killed process
            rows.append(json.loads(line))
    key = ["shard", "phase", "step"]
    table = pd.DataFrame(rows)
    if table.empty:
        return pd.DataFrame(columns=key)
    table = table.drop_duplicates(key, keep="last").reset_index(drop=True)
    return table.astype({name: float for name in table if name not in key})


def job_request(store: Store, job_id: str) -> Request | Growth:
    """The request a job was started with, to start it again."""
    try:
        asked = _asked(_folder(store, job_id))
        return request_from({name: value for name, value in asked.items() if name != "schema"})
    except (StoreError, ValueError, TypeError, AttributeError) as error:
        what = f"the {REQUEST} of {job_id!r} cannot be read ({said_by(error)})."
        raise refusal("job", what, "Ask anew.") from error


def run_job(
    store: Store,
    request: Request | Growth,
    watch: Callable[[Event], None] = lambda event: None,
    executor: Executor | None = None,
    submitted: bool = False,
) -> Run:
    """Do the job in this process, visible to every page. Where another process computes it, wait
    and take its result.

    It begins at once, whatever waits in line: who calls it, waits for it. Between two batches it
    steps aside while a question is answered on its device.

    submitted: by `submit`, before this process was up; a cancel since then was meant for this job.
    """
    track = track_of_request(request)
    refuse(type_faults(request))
    store.prove_writable()
    job_id = job_id_of(request)
    folder = _prepare(store, job_id, request)
    if not submitted and not is_alive(folder):
        (folder / "cancel").unlink(missing_ok=True)

    def waiting() -> None:
        watch(Event("waiting", 0, 0, "another session computes the same audit"))
        _stop_if_cancelled(folder)

    with locked(folder / "lock", waiting):
        moment = _now()
        before = _said_before(folder) if submitted else JobState("", "", "")
        state = JobState(
            job_id,
            _title(request),
            "running",
            "start",
            started=moment,
            updated=moment,
            device=request.device,
            ray=before.ray,
            memory=before.memory,
        )
        aside = Aside(
            store, lambda: device_named(request.device), lambda: _stop_if_cancelled(folder)
        )
        _write(folder, state)
        try:
            _stop_if_cancelled(folder)
            sweep(store.root)
            with _hooks(folder, state, watch, aside) as hooks:
                run_audit = track.part(
                    "grow" if isinstance(request, Growth) else "run"
                )  # loads what takes seconds
                run = run_audit(request, store, hooks, executor)
        except BaseException as error:
            _write(folder, _ended(state, error))
            raise
        _write(folder, replace(state, status="done", run_id=run.id, updated=_now()))
        return run


def is_alive(folder: Path) -> bool:
    """Whether a process holds the job's lock."""
    return held(folder / "lock")


def is_up(folder: Path) -> bool:
    """Whether the job's process is there, though it may not have begun yet."""
    return is_alive(folder) or held(folder / "process")


@contextlib.contextmanager
def _hooks(
    folder: Path, state: JobState, watch: Callable[[Event], None], aside: Callable[[], None]
) -> Iterator[Hooks]:
    """How a job reports; within it the job says where it stands every few seconds, however long a
    step takes."""
    last = {"check": 0.0, "write": 0.0}
    said = {"note": ""}

    def check() -> None:
        if time.monotonic() - last["check"] > QUIET:
            last["check"] = time.monotonic()
            _stop_if_cancelled(folder)
            pulse.check()
            aside()

    def tell(event: Event) -> None:
        watch(event)
        said["note"] = "\n".join(
            dict.fromkeys(filter(None, [*said["note"].splitlines(), event.note]))
        )
        if event.note or time.monotonic() - last["write"] > QUIET:
            last["write"] = time.monotonic()
            _write(folder, replace(state, **{**asdict(event), **said}, updated=_now()))

    def point(row: Values) -> None:
        with (folder / POINTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(json_able(dict(row))) + "\n")

    with Pulse(tell, (folder / "cancel").exists) as pulse:
        yield Hooks(pulse.say, check, point)


def _stop_if_cancelled(folder: Path) -> None:
    if (folder / "cancel").exists():
        raise Cancelled("Cancelled. What was finished is kept; start it again to go on.")


def _ended(state: JobState, error: BaseException) -> JobState:
    now = replace(state, updated=_now())
    if isinstance(error, Cancelled | KeyboardInterrupt):
        return replace(
            now,
            status="cancelled",
            message="Cancelled. What was finished is kept; start it again to go on.",
        )
    if isinstance(error, RequestError):
        return replace(now, status="failed", message="The request is wrong.", faults=error.faults)
    if isinstance(error, PruneAuditError):
        return replace(now, status="failed", message=str(error))
    return replace(
        now,
        status="failed",
        message=f"An error in the program: {type(error).__name__}. See log.txt.",
    )


def _folder(store: Store, job_id: str) -> Path:
    return store.jobs_folder / safe_id(job_id, "job id")


def _prepare(store: Store, job_id: str, request: Request | Growth) -> Path:
    folder = _folder(store, job_id)
    with explained(folder):
        make_folder(folder)
    write_document(folder / REQUEST, request.to_dict(), SCHEMA)
    write_whole(folder / SPARE, lambda temporary: temporary.write_bytes(os.urandom(SPARED)))
    return folder


def _write(folder: Path, state: JobState) -> None:
    """Note where a job stands. On a full disk what was set aside for its last word is given up for
    it."""
    try:
        write_document(folder / STATE, asdict(state), SCHEMA)
    except StoreError:
        if not (folder / SPARE).exists():
            raise
        (folder / SPARE).unlink()
        write_document(folder / STATE, asdict(state), SCHEMA)


def _title(request: Request | Growth) -> str:
    said = request.to_dict()
    return request.title or f"{words.model_name(said['model'])}: {', '.join(said['axes'])}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _age(moment: str) -> float:
    """Seconds since then, by this machine's clock; infinite for what is no time."""
    try:
        return (
            datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(moment)
        ).total_seconds()
    except (TypeError, ValueError):
        return math.inf

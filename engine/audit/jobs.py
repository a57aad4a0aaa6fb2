"""Audits that outlive the page that asked for them: one process each, one per equal request, cancellable, resumable.

A job is a folder below the store: request.json, state.json, log.txt, points.jsonl where it trains with curves, a lock
that its process holds while it lives, and a file `cancel` once the user wants it to stop. Whether a job runs is read
from the lock, never from what it last wrote, so a killed process shows as interrupted. No torch here: pages read it.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.audit.fields import type_faults
from engine.audit.growth import Growth
from engine.core.errors import Cancelled, Fault, PruneAuditError, RequestError, StoreError
from engine.core.files import PROJECT, explained, json_able, safe_id, write_json
from engine.core.types import Event, Hooks, digest_of
from engine.store.runs import Run, Store

if TYPE_CHECKING:
    import pandas as pd

    from engine.audit.executors import Executor
    from engine.audit.request import Request

GRACE = 1.2
"""Seconds a cancelled job has to come to the end of a batch."""
QUIET = 0.3
"""Seconds between two looks at the cancel file, and between two writes of the state."""
POINTS = "points.jsonl"
"""Rows of training curves, as a job learns them."""


@dataclass(frozen=True)
class JobState:
    """Where a job stands. status: queued, running, done, failed, cancelled or interrupted. Times are ISO 8601, UTC.

    `faults` says what was wrong with the request; `run_id` is known once the run is finished; `eta` in seconds.
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


def job_id_of(request: Request | Growth) -> str:
    """Requests for the same audit are one job, whatever they call it and however often it is begun."""
    return "job-" + digest_of(request.identity)[:16]


def check(request: Request | Growth, store: Store, faults: Sequence[Fault] = ()) -> None:
    """RequestError with all that is wrong together: `faults` found before, the request's, the store's.

    Nothing is written. StoreError where only the store is at fault.
    """
    from engine.audit.tracks import track_of_request

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


def check_store(store: Store, faults: Sequence[Fault] = ()) -> None:
    """RequestError for `faults` and a store that cannot be written, together; StoreError for the store alone."""
    try:
        store.prove_writable(create=False)
    except StoreError as error:
        if not faults:
            raise
        faults = [*faults, Fault("store", str(error).removeprefix("store "), "")]
    if faults:
        raise RequestError(faults)


def submit(request: Request | Growth, store: Store) -> str:
    """Start the job unless it is running, and return its id. Submitting an interrupted job again resumes it."""
    _refuse_other_types(request)
    store.prove_writable()
    job_id = job_id_of(request)
    folder = _prepare(store, job_id, request)
    if is_alive(folder):
        return job_id
    (folder / "cancel").unlink(missing_ok=True)
    _write(folder, JobState(job_id, _title(request), "queued", started=_now(), updated=_now()))
    with (folder / "log.txt").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "engine.audit.worker", str(store.root), job_id],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return job_id


def cancel(store: Store, job_id: str) -> None:
    """Ask a job to stop; it does so at its next batch. What it finished is kept."""
    folder = _folder(store, job_id)
    with explained(folder):
        (folder / "cancel").touch()


def leave_when_cancelled(store: Store, job_id: str) -> None:
    """Watch, in a thread of the job's own process, for the file `cancel`; end the process when no batch ends soon.

    A batch of a large model on a CPU takes longer than a user wants to wait. Everything is written whole or not at all,
    so a process may end anywhere.
    """
    folder = _folder(store, job_id)

    def watch() -> None:
        while not (folder / "cancel").exists():
            time.sleep(QUIET)
        time.sleep(GRACE)
        state = job_state(store, job_id)
        if state.status in ("queued", "running"):
            _write(folder, _ended(state, Cancelled()))
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _refuse_other_types(request: Request | Growth) -> None:
    """RequestError for values that no request can be told apart by, such as a number where a list belongs."""
    if faults := type_faults(request):
        raise RequestError(faults)


def job_state(store: Store, job_id: str) -> JobState:
    """Where the job stands now. An id that is not there raises RequestError."""
    folder = _folder(store, job_id)
    try:
        value = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RequestError(Fault("job", f"{job_id!r} is not in the store.", "Look at the list of jobs.")) from error
    value["faults"] = tuple(Fault(**fault) for fault in value["faults"])
    state = JobState(**value)
    if state.status == "running" and not is_alive(folder):
        return replace(state, status="interrupted", eta=None, message="Its process is gone. Start it again to resume.")
    if state.status == "queued" and not is_alive(folder) and _age(state.updated) > 60:
        return replace(state, status="interrupted", message="It never started. See log.txt in its folder.")
    return state


def list_jobs(store: Store) -> list[JobState]:
    """All jobs, newest first."""
    if not store.jobs_folder.is_dir():
        return []
    found = []
    for path in store.jobs_folder.glob("job-*/state.json"):
        with contextlib.suppress(PruneAuditError):  # one damaged job must not hide the others
            found.append(job_state(store, path.parent.name))
    return sorted(found, key=lambda state: state.started, reverse=True)


def live_points(store: Store, job_id: str) -> pd.DataFrame:
    """Training curves of a job as far as it is: one row per shard (what is trained, in words), phase and step.

    Further columns are float64: what is known at that step. A step that was taken again after an interruption counts
    once, as it was last. No rows where there are none.
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
    from engine.audit.tracks import request_from

    return request_from(json.loads((_folder(store, job_id) / "request.json").read_text(encoding="utf-8")))


def run_job(
    store: Store,
    request: Request | Growth,
    watch: Callable[[Event], None] = lambda event: None,
    executor: Executor | None = None,
    submitted: bool = False,
) -> Run:
    """Do the job in this process, visible to every page. Where another process computes it, wait and take its result.

    submitted: by `submit`, before this process was up; a cancel since then was meant for this job.
    """
    from engine.audit.tracks import track_of_request

    run_audit = track_of_request(request).part("grow" if isinstance(request, Growth) else "run")
    _refuse_other_types(request)
    store.prove_writable()
    job_id = job_id_of(request)
    folder = _prepare(store, job_id, request)
    if not submitted and not is_alive(folder):
        (folder / "cancel").unlink(missing_ok=True)
    with _lock(folder, lambda: watch(Event("waiting", 0, 0, "another session computes the same audit"))):
        state = JobState(job_id, _title(request), "running", "start", started=_now(), updated=_now())
        _write(folder, state)
        try:
            _stop_if_cancelled(folder)
            run = run_audit(request, store, _hooks(folder, state, watch), executor)
        except BaseException as error:
            _write(folder, _ended(state, error))
            raise
        _write(folder, replace(state, status="done", run_id=run.id, updated=_now()))
        return run


def is_alive(folder: Path) -> bool:
    """Whether a process holds the job's lock."""
    try:
        with (folder / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _hooks(folder: Path, state: JobState, watch: Callable[[Event], None]) -> Hooks:
    last = {"check": 0.0, "write": 0.0}
    said = {"note": ""}

    def check() -> None:
        if time.monotonic() - last["check"] > QUIET:
            last["check"] = time.monotonic()
            _stop_if_cancelled(folder)

    def report(event: Event) -> None:
        watch(event)
        said["note"] = "\n".join(dict.fromkeys(filter(None, [*said["note"].splitlines(), event.note])))
        if event.note or time.monotonic() - last["write"] > QUIET:
            last["write"] = time.monotonic()
            _write(folder, replace(state, **{**asdict(event), **said}, updated=_now()))

    def point(row: Mapping[str, Any]) -> None:
        with (folder / POINTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(json_able(dict(row))) + "\n")

    return Hooks(report, check, point)


def _stop_if_cancelled(folder: Path) -> None:
    if (folder / "cancel").exists():
        raise Cancelled("Cancelled. What was finished is kept; start it again to go on.")


def _ended(state: JobState, error: BaseException) -> JobState:
    now = replace(state, updated=_now())
    if isinstance(error, Cancelled | KeyboardInterrupt):
        return replace(
            now, status="cancelled", message="Cancelled. What was finished is kept; start it again to go on."
        )
    if isinstance(error, RequestError):
        return replace(now, status="failed", message="The request is wrong.", faults=error.faults)
    if isinstance(error, PruneAuditError):
        return replace(now, status="failed", message=str(error))
    return replace(now, status="failed", message=f"An error in the program: {type(error).__name__}. See log.txt.")


@contextlib.contextmanager
def _lock(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    with (folder / "lock").open("a") as file:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    waiting()
                told = True
                _stop_if_cancelled(folder)
                time.sleep(QUIET)
        yield


def _folder(store: Store, job_id: str) -> Path:
    return store.jobs_folder / safe_id(job_id, "job id")


def _prepare(store: Store, job_id: str, request: Request | Growth) -> Path:
    folder = _folder(store, job_id)
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "request.json", request.to_dict())
    return folder


def _write(folder: Path, state: JobState) -> None:
    write_json(folder / "state.json", asdict(state))


def _title(request: Request | Growth) -> str:
    return request.title or f"{request.model}: {', '.join(request.axes)}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _age(moment: str) -> float:
    return (datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(moment)).total_seconds()

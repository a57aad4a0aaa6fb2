"""Jobs in line: one runs per device, the oldest first; a killed engine loses none, a cancelled job
never starts."""

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from engine.audit import jobs
from engine.audit.jobs import JobState, cancel, job_state, list_jobs, submit
from engine.audit.tracks import tracks
from engine.core.files import locked
from engine.resident.asks import answer_here
from engine.resident.lines import JobLine

WORKER = (
    "import fcntl, sys\n"
    "lock = open(f'{sys.argv[1]}/jobs/{sys.argv[2]}/lock', 'a')\n"
    "fcntl.flock(lock, fcntl.LOCK_EX)\n"
    "print(sys.stdin.readline() and 'ended', flush=True)"
)
"""A process that holds a job's lock until it is let go."""


class Workers(dict):
    """The processes that were started for jobs, by job, in order."""

    def __call__(self, command, **more):
        words = [sys.executable, "-c", WORKER, *command[-2:]]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self[command[-1]] = subprocess.Popen(words, **pipes, pass_fds=more["pass_fds"])
        return self[command[-1]]

    def end(self, store, job_id, status="done"):
        """Let a job's process end; status: what it wrote before, "" for nothing."""
        if status:
            folder = store.jobs_folder / job_id
            jobs._write(folder, replace(jobs._said(folder), status=status))
        self[job_id].communicate(b"\n")


@pytest.fixture
def workers(monkeypatch):
    found = Workers()
    monkeypatch.setattr(
        jobs, "subprocess", SimpleNamespace(Popen=found, DEVNULL=subprocess.DEVNULL)
    )
    yield found
    for process in found.values():
        process.kill()
        process.communicate()


@pytest.fixture
def job_line(store):
    one = JobLine(store, device_of=lambda name: {"auto": "cpu"}.get(name, name))
    assert one.take_over()
    yield one
    one.close()


def queued(store, name, device="auto"):
    """A job that was submitted, the later in the alphabet the later."""
    folder = store.jobs_folder / f"job-{name}"
    folder.mkdir(parents=True)
    jobs._write(
        folder,
        JobState(folder.name, name, "queued", started=name, updated=jobs._now(), device=device),
    )
    return folder.name


def test_one_runs_at_a_time_and_the_oldest_is_next(store, job_line, workers):
    second, first = queued(store, "b"), queued(store, "a")
    for _ in range(3):
        job_line.step()
    assert list(workers) == [first] and job_line.busy
    assert (
        job_state(store, second).message
        == "Waiting: 1 audit is ahead of it."
        == list_jobs(store)[0].message
    )
    workers.end(store, first)
    job_line.step()
    assert list(workers) == [first, second] and job_state(store, second).message == ""
    workers.end(store, second)
    job_line.step()
    assert not job_line.busy


def test_devices_have_lines_of_their_own(store, job_line, workers):
    for name, device in (("a", "auto"), ("b", "cpu"), ("c", "cuda:0")):
        queued(store, name, device)
    job_line.step()
    assert list(workers) == ["job-a", "job-c"]


def test_a_killed_engine_leaves_its_line_and_its_jobs_to_the_next(store, job_line, workers):
    first, second = queued(store, "a"), queued(store, "b")
    job_line.step()
    other = JobLine(store, device_of=lambda name: name)
    assert not other.take_over(), "a store has one line"
    job_line.close()
    other.step()
    assert list(workers) == [first] and other.busy, "the job that runs counts, whoever started it"
    workers.end(store, first)
    other.step()
    assert list(workers) == [first, second]
    other.close()


def test_a_job_of_the_command_line_counts_as_running(store, job_line, workers):
    waits = queued(store, "b")
    folder = store.jobs_folder / queued(store, "a")
    with locked(folder / "lock", lambda: None):
        jobs._write(folder, replace(jobs._said(folder), status="running"))
        job_line.step()
        assert not workers
    job_line.step()
    assert list(workers) == [waits]


def test_a_job_cancelled_in_line_never_starts(store, job_line, workers):
    first, second = queued(store, "a"), queued(store, "b")
    job_line.step()
    cancel(store, second)
    assert job_state(store, second).status == "cancelled"
    workers.end(store, first)
    job_line.step()
    assert list(workers) == [first] and not job_line.busy


def test_a_job_whose_process_says_nothing_fails_and_is_not_started_again(store, job_line, workers):
    silent, other = queued(store, "a"), queued(store, "b")
    job_line.step()
    workers.end(store, silent, "")
    job_line.step()
    job_line.step()
    assert (
        job_state(store, silent).status == "failed"
        and "log.txt" in job_state(store, silent).message
    )
    assert list(workers) == [silent, other]


def test_a_damaged_job_stops_no_line(store, job_line, workers):
    (store.jobs_folder / "job-0").mkdir()
    (store.jobs_folder / "job-0" / "state.json").write_text("{")
    queued(store, "a")
    job_line.step()
    assert list(workers) == ["job-a"]


@pytest.fixture
def request_():
    """One that holds up, of any track."""
    return next(iter(tracks().values())).part("embedded")[0]


def test_what_is_submitted_waits_where_an_engine_serves_and_keeps_its_place(
    store, job_line, workers, request_
):
    job_id = submit(request_, store)
    moment = job_state(store, job_id).started
    assert (
        submit(request_, store) == job_id
        and job_state(store, job_id).started == moment
        and not workers
    )
    cancel(store, job_id)
    submit(request_, store)
    assert job_state(store, job_id).status == "queued", "asked for again after it was cancelled"
    job_line.step()
    assert list(workers) == [job_id]


def test_what_is_submitted_without_an_engine_starts_at_once(store, workers, request_):
    job_id = submit(request_, store)
    assert list(workers) == [job_id]
    process = store.jobs_folder / job_id / "process"
    assert jobs.is_up(process.parent), "known to be there before it says anything"


def test_a_job_keeps_the_cluster_it_was_given(store, job_line, workers, request_):
    job_id = submit(request_, store, "10.0.0.5:6379")
    cancel(store, job_id)
    submit(request_, store)
    assert job_state(store, job_id).ray == "10.0.0.5:6379", "resumed where it was"
    cancel(store, job_id)
    submit(request_, store, "")
    assert job_state(store, job_id).ray == "", "asked for again, on this machine"


def test_start_checks_and_starts(store, workers, request_, monkeypatch):
    checked = []
    monkeypatch.setattr(jobs, "check", lambda request, store, faults=(): checked.append(request))
    given = {"request": request_.to_dict()}
    assert (
        answer_here("start", {**given, "start": False}, store) == {"job_id": ""}
        and not store.root.exists()
    )
    found = answer_here("start", given, store)["job_id"]
    assert found == jobs.job_id_of(request_) and list(workers) == [found]
    workers.end(store, found, "failed")
    assert answer_here("start", {"job_id": found}, store) == {"job_id": found}
    assert job_state(store, found).status == "queued" and checked == [request_] * 3

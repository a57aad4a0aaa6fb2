"""Audits step aside while a question is answered on their device, not for ever, and never for a
dead one."""

import contextlib
import datetime
import fcntl
import subprocess
import sys
import threading

import pytest

from engine.audit import jobs
from engine.audit.jobs import JobState, job_state
from engine.audit.turn import Aside, answering, working
from engine.audit.worker import leave_when_cancelled
from engine.core.errors import Cancelled, StoreError
from engine.core.types import Hooks
from engine.store.runs import Store
from tests.places import ROOT


def nothing():
    pass


@pytest.fixture
def turns(tmp_path):
    return Store(tmp_path)


class Checks:
    """Counts the looks of an audit that waits, and says when there were some."""

    def __init__(self):
        self.waits = threading.Event()

    def __call__(self):
        self.waits.set()


def test_an_audit_waits_for_the_answer_on_its_device_only(turns):
    check, passed = Checks(), threading.Event()
    audit = Aside(turns, lambda: "cuda:0", check)
    thread = threading.Thread(target=lambda: (audit(), passed.set()))
    with answering(turns, "cuda:0", nothing):
        Aside(turns, lambda: "cpu", pytest.fail)()
        thread.start()
        assert check.waits.wait(30) and not passed.is_set()
    thread.join(30)
    assert passed.is_set()


def test_an_audit_that_waits_can_be_cancelled(turns):
    def cancelled():
        raise Cancelled

    with answering(turns, "cpu", nothing), pytest.raises(Cancelled):
        Aside(turns, lambda: "cpu", cancelled)()


def test_one_answer_is_waited_for_as_long_as_patience_lasts_and_the_next_one_anew(turns):
    check = Checks()
    audit = Aside(turns, lambda: "cpu", check, patience=0.0)
    with answering(turns, "cpu", nothing):
        audit()
        assert check.waits.is_set()
        check.waits.clear()
        audit()
        assert not check.waits.is_set(), "an answer may itself wait for what the audit computes"
    with answering(turns, "cpu", nothing):
        audit()
        assert check.waits.is_set()


@contextlib.contextmanager
def holding(turns, scope):
    """Another process within `answering` or `working` on the same store."""
    code = (
        "import sys\nfrom engine.audit.turn import answering, working\n"
        "from engine.core.types import Hooks\nfrom engine.store.runs import Store\n"
        f"with {scope}:\n    print('mine', flush=True)\n    sys.stdin.read()"
    )
    words, pipe = [sys.executable, "-c", code, str(turns.root)], subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, cwd=ROOT) as process:
        assert process.stdout.readline() == b"mine\n"
        yield
        process.kill()


def test_a_killed_answer_holds_nobody_up(turns):
    with holding(turns, "answering(Store(sys.argv[1]), 'cpu', lambda: None)"):
        pass
    Aside(turns, lambda: "cpu", pytest.fail)()


def test_where_nothing_can_be_written_nobody_waits(tmp_path):
    store = Store(tmp_path / "none")
    with answering(store, "cpu", nothing):
        Aside(store, lambda: "cpu", pytest.fail)()
    assert not store.root.exists()


def test_two_processes_audit_on_one_device_one_after_the_other(turns):
    told = []

    def check():
        if len(told) > 2:
            raise Cancelled

    with holding(turns, "working(Store(sys.argv[1]), 'cpu', Hooks())"):
        with (
            pytest.raises(Cancelled),
            working(turns, "cpu", Hooks(report=told.append, check=check)),
        ):
            pytest.fail("both at once")
        with working(turns, "cuda:0", Hooks(check=pytest.fail)):
            pass
    assert {event.what for event in told} == {"another audit works on cpu"}
    with (
        working(turns, "cpu", Hooks(check=pytest.fail)),
        working(turns, "cpu", Hooks(check=pytest.fail)),
    ):
        pass  # a part of an audit that is one itself does not wait for its own whole


# A cancelled job ends within two seconds in every phase, and no clock that jumps strands a queued
# one.


JOB, READY = "job-1", threading.Event()
READY.set()


def prepared(tmp_path, status="running", updated="2026-01-01T00:00:00+00:00"):
    store = Store(tmp_path)
    folder = store.jobs_folder / JOB
    folder.mkdir(parents=True)
    jobs._write(folder, JobState(JOB, "a job", status, started=updated, updated=updated))
    return store, folder


class Watched:
    """What the watcher of a job asks for: how long it waits once the job is cancelled, and whether
    it ends it."""

    def __init__(self, folder, looks):
        self.folder, self.looks, self.waited, self.left = folder, looks, 0.0, []

    def wait(self, seconds):
        self.looks -= 1
        if self.looks == 0:  # cancelled just after a look: the whole of this wait counts
            (self.folder / "cancel").touch()
        self.waited += seconds * (self.looks <= 0)

    def watch(self):
        leave_when_cancelled(self.folder, READY, self.wait, self.left.append)
        return self


@pytest.mark.parametrize("status", ["queued", "running"])
def test_whatever_it_is_at_it_ends_within_a_second(tmp_path, status):
    store, folder = prepared(tmp_path, status)
    found = Watched(folder, looks=5).watch()
    assert found.left == [1] and found.waited <= 0.5, (
        "the rest of two seconds is for a busy machine"
    )
    assert job_state(store, JOB).status == "cancelled"


def test_it_ends_also_where_its_state_cannot_be_read_or_written(tmp_path, monkeypatch):
    _, folder = prepared(tmp_path)
    (folder / jobs.STATE).write_text("{")
    assert Watched(folder, looks=1).watch().left == [1]

    def full(*_):
        raise StoreError("the disk is full")

    monkeypatch.setattr(jobs, "write_document", full)
    assert Watched(folder, looks=1).watch().left == [1]


@pytest.mark.parametrize(("status", "left"), [("done", [1]), ("failed", []), ("cancelled", [1])])
def test_one_that_came_to_its_end_keeps_its_word_and_does_not_take_the_interpreter_down(
    tmp_path, status, left
):
    """But for one that failed: its traceback is still on its way into the log."""
    store, folder = prepared(tmp_path, status)
    assert Watched(folder, looks=2).watch().left == left and job_state(store, JOB).status == status


def test_one_that_was_cancelled_and_is_gone_was_cancelled_whatever_it_said_last(tmp_path):
    store, folder = prepared(tmp_path)
    assert job_state(store, JOB).status == "interrupted"
    (folder / "cancel").touch()
    assert job_state(store, JOB).status == "cancelled"


@pytest.mark.parametrize("days", [-400, 0, 400])
def test_a_queued_job_is_not_stranded_by_a_clock(tmp_path, monkeypatch, days):
    """Its process is on its way, or an engine has it in line, whatever the clock said when it was
    queued."""
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    store, folder = prepared(tmp_path, "queued", moment.isoformat())
    with (folder / "process").open("a") as process:
        fcntl.flock(process, fcntl.LOCK_EX)
        assert job_state(store, JOB).status == "queued"
    with jobs.line_lock(store).open("a") as line:
        fcntl.flock(line, fcntl.LOCK_EX)
        assert job_state(store, JOB).status == "queued"
    found = job_state(store, JOB)
    assert found.status == ("queued" if days == 0 else "interrupted")
    assert days == 0 or "Start it again" in found.message
    monkeypatch.setattr(jobs.sys, "executable", "/bin/true")
    assert jobs.launch(store, JOB).wait() == 0
    assert job_state(store, JOB).status == "interrupted", (
        "its process has ended before it said a word"
    )


def test_a_cancel_while_modules_are_imported_ends_the_process_at_once(tmp_path):
    left = []
    (tmp_path / "cancel").touch()
    leave_when_cancelled(tmp_path, threading.Event(), pytest.fail, left.append)
    assert left == [1]
    heavy = (
        "import sys, engine.audit.worker; sys.exit(any(one in sys.modules for one in ('torch',"
        " 'pandas')))"
    )
    assert subprocess.run([sys.executable, "-c", heavy], cwd=ROOT, check=False).returncode == 0

"""Audits step aside while a question is answered on their device, not for ever, and never for a
dead one."""

import contextlib
import subprocess
import sys
import threading

import pytest

from engine.audit.turn import Aside, answering, working
from engine.core.errors import Cancelled
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

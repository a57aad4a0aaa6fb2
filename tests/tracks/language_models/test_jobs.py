"""Jobs: a killed one resumes with the same numbers, a cancelled one stops at once, equal ones are computed once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from engine.audit import jobs
from engine.audit.jobs import cancel, job_state, list_jobs, run_job, submit
from engine.core.errors import RequestError
from engine.store.runs import Store
from tests.tracks.language_models.worlds import world_request

SMALL = {"axes": ("religion",), "methods": ("fasp", "magnitude"), "sparsities": (0.0, 0.3)}


def wait_for(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("waited too long")


def worker_of(job_id):
    """Process id of the job's process, from /proc."""
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and job_id.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                return int(name)
        except OSError:
            continue
    return None


def shards_of(store):
    return len(list((store.root / "shards").rglob("*.parquet")))


def status(store, job_id):
    return job_state(store, job_id).status


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="finds the process in /proc")
def test_killed_in_the_middle_and_started_again_ends_with_the_same_numbers(tmp_path):
    request, store = world_request(tmp_path, seeds=3, max_new_tokens=20, **SMALL), Store(tmp_path / "a")
    job_id = submit(request, store)
    wait_for(lambda: shards_of(store) > 20)
    os.kill(worker_of(job_id), signal.SIGKILL)
    wait_for(lambda: status(store, job_id) == "interrupted")
    kept = shards_of(store)
    assert submit(request, store) == job_id
    wait_for(lambda: status(store, job_id) == "done", 120)
    assert shards_of(store) > kept
    resumed, whole = store.open(job_state(store, job_id).run_id), run_job(Store(tmp_path / "b"), request)
    assert resumed.id == whole.id
    for name in ("scores", "results", "groups", "generations", "texts", "variants"):
        pd.testing.assert_frame_equal(resumed.table(name), whole.table(name))


def test_cancel_stops_within_two_seconds_and_keeps_what_is_finished(tmp_path):
    request, store = world_request(tmp_path, seeds=12, max_new_tokens=50), Store(tmp_path / "a")
    job_id = submit(request, store)
    wait_for(lambda: shards_of(store) > 5)
    start = time.monotonic()
    cancel(store, job_id)
    wait_for(lambda: status(store, job_id) == "cancelled", 10)
    assert time.monotonic() - start < 2.0
    assert shards_of(store) > 5 and store.ids() == []


def test_two_equal_requests_are_computed_once(tmp_path):
    request, store = world_request(tmp_path, **SMALL), Store(tmp_path / "a")
    first, second = submit(request, store), submit(request, store)
    assert first == second
    wait_for(lambda: status(store, first) == "done", 120)
    events = []
    run = run_job(store, request, events.append)
    assert run.id == job_state(store, first).run_id and not [event for event in events if event.phase == "score heads"]
    assert len(list_jobs(store)) == 1


def test_a_wrong_request_fails_with_its_faults_and_leaves_no_run(tmp_path):
    store = Store(tmp_path / "a")
    job_id = submit(world_request(tmp_path, model="/no/such", axes=("age",)), store)
    wait_for(lambda: status(store, job_id) == "failed")
    said = "\n".join(str(fault) for fault in job_state(store, job_id).faults)
    assert "/no/such" in said and "age" in said and store.ids() == []


def test_a_job_that_is_not_there_is_said(tmp_path):
    with pytest.raises(RequestError, match="not in the store"):
        job_state(Store(tmp_path), "job-0")


def test_a_job_cancelled_while_it_waits_never_starts(tmp_path):
    request, store = world_request(tmp_path, **SMALL), Store(tmp_path / "a")
    job_id = submit(request, store)
    cancel(store, job_id)  # its process has not come up yet
    wait_for(lambda: status(store, job_id) == "cancelled")
    assert store.ids() == [] and shards_of(store) == 0


def test_one_damaged_job_does_not_hide_the_others(tmp_path):
    request, store = world_request(tmp_path, model="/no/such", **SMALL), Store(tmp_path / "a")
    with pytest.raises(RequestError):
        run_job(store, request)
    broken = store.jobs_folder / "job-1"
    broken.mkdir()
    (broken / "state.json").write_text("{")
    assert [state.status for state in list_jobs(store)] == ["failed"]


def test_a_job_inside_a_long_batch_leaves_all_the_same(tmp_path):
    """A process that never comes to the end of its batch: it is gone within two seconds, and says it was cancelled."""
    store = Store(tmp_path / "store")
    request = world_request(tmp_path, seeds=1, **SMALL)
    job_id = jobs.job_id_of(request)
    folder = jobs._prepare(store, job_id, request)
    jobs._write(folder, jobs.JobState(job_id, "x", "running", "start"))
    code = (
        "import sys, time\nfrom engine.audit import jobs\nfrom engine.store.runs import Store\n"
        "store, job = Store(sys.argv[1]), sys.argv[2]\n"
        "with jobs._lock(jobs._folder(store, job), print):\n"
        "    jobs.leave_when_cancelled(store, job)\n    print('ready', flush=True)\n    time.sleep(60)"
    )
    words = [sys.executable, "-c", code, str(store.root), job_id]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=jobs.PROJECT, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        start = time.monotonic()
        cancel(store, job_id)
        assert process.wait(10) == 1 and time.monotonic() - start < 2.0 + 1.0  # a second for a busy machine
    assert status(store, job_id) == "cancelled"

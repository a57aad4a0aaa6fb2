"""Jobs: a killed one resumes with the same numbers, a cancelled one stops at once, equal ones are
computed once."""

import subprocess
import sys
import threading
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from engine.audit import jobs
from engine.audit.jobs import cancel, job_request, job_state, list_jobs, run_job, submit
from engine.core.errors import RequestError, StoreError
from engine.store.runs import Store
from engine.store.sealed import write_document
from tests.tracks.language_models.worlds import world_request

LONGEST = 240
"""Seconds after which a process that does not end is ended, so that a defect fails and does not
hang."""
SMALL = {
    "axes": ("religion",),
    "methods": ("fasp", "magnitude"),
    "sparsities": (0.0, 0.3),
    "controls": 0,
}


WORKER = (
    "import sys\n"
    "from engine.audit import worker\n"
    "from engine.store.sealed import Shards\n"
    "put = Shards.put\n"
    "def told(self, *words):\n"
    "    put(self, *words)\n"
    "    print('a shard is kept', flush=True)\n"
    "Shards.put = told\n"
    "sys.exit(worker.main(*sys.argv[1:3]))"
)
"""The process of a job, which says a line for every shard it keeps."""


class Processes(list):
    """The processes that jobs started, in order; each tells of its shards."""

    def __call__(self, command: list[str], **more: Any) -> subprocess.Popen:
        words = [sys.executable, "-c", WORKER, *command[-2:]]
        pipes = {"stdout": subprocess.PIPE, "stderr": more["stderr"]}
        self.append(subprocess.Popen(words, cwd=more["cwd"], **pipes))
        limit = threading.Timer(LONGEST, self[-1].kill)
        limit.daemon = True
        limit.start()
        return self[-1]

    def after_shards(self, n: int) -> subprocess.Popen:
        """The last process, once it has kept n more shards."""
        for _ in range(n):
            assert self[-1].stdout.readline(), "it ended before"
        return self[-1]

    def ended(self) -> int:
        """How the last process ended, once it has."""
        self[-1].communicate()
        return self[-1].returncode


@pytest.fixture
def processes(monkeypatch):
    found = Processes()
    monkeypatch.setattr(
        jobs, "subprocess", SimpleNamespace(Popen=found, DEVNULL=subprocess.DEVNULL)
    )
    yield found
    for process in found:
        process.kill()
        process.wait()


def shards_of(store):
    return len(list((store.root / "shards").rglob("*.shard")))


def status(store, job_id):
    return job_state(store, job_id).status


# Two whole audits; a kill of image audits and a cancel of these stay quick, hardening kills forty.
@pytest.mark.slow
def test_killed_in_the_middle_and_started_again_ends_with_the_same_numbers(tmp_path, processes):
    request, store = world_request(tmp_path, seeds=1, **SMALL), Store(tmp_path / "a")
    job_id = submit(request, store)
    processes.after_shards(5).kill()
    processes.ended()
    assert status(store, job_id) == "interrupted"
    kept = shards_of(store)
    assert submit(request, store) == job_id and len(processes) == 2
    assert processes.ended() == 0 and status(store, job_id) == "done"
    assert shards_of(store) > kept
    resumed, whole = (
        store.open(job_state(store, job_id).run_id),
        run_job(Store(tmp_path / "b"), request),
    )
    assert resumed.id == whole.id
    for name in ("scores", "results", "groups", "generations", "texts", "variants"):
        pd.testing.assert_frame_equal(resumed.table(name), whole.table(name))


def test_a_cancelled_job_stops_and_keeps_what_is_finished(tmp_path, processes):
    request, store = world_request(tmp_path, seeds=6, max_new_tokens=20), Store(tmp_path / "a")
    job_id = submit(request, store)
    processes.after_shards(5)
    assert submit(request, store) == job_id and len(processes) == 1, "equal ones are computed once"
    cancel(store, job_id)
    processes.ended()
    assert status(store, job_id) == "cancelled"
    assert shards_of(store) >= 5 and store.ids() == []


def test_one_damaged_job_does_not_hide_the_others(tmp_path):
    wrong = {**SMALL, "model": "/no/such", "axes": ("age",)}
    request, store = world_request(tmp_path, **wrong), Store(tmp_path / "a")
    with pytest.raises(RequestError):
        run_job(store, request)
    broken = store.jobs_folder / "job-1"
    broken.mkdir()
    (broken / "state.json").write_text("{")
    there, nothing_left = list_jobs(store)
    assert there.status == nothing_left.status == "failed" and store.ids() == []
    said = "\n".join(str(fault) for fault in there.faults)
    assert "/no/such" in said and "age" in said
    assert "damaged" in nothing_left.message and "cannot be resumed" in nothing_left.message


def test_a_full_disk_is_said_in_the_jobs_state(tmp_path, monkeypatch):
    """Nothing can be written any more, but for what was set aside."""
    request, store = world_request(tmp_path, seeds=1, **SMALL), Store(tmp_path / "store")
    folder = store.jobs_folder / jobs.job_id_of(request)
    written, full = jobs.write_document, StoreError("store: the disk is full. Free some space")

    def write(path, value, schema):
        if value.get("status") == "failed" and (folder / jobs.SPARE).exists():
            raise full
        written(path, value, schema)

    def stop(*_):
        raise full

    monkeypatch.setattr(jobs, "write_document", write)
    monkeypatch.setattr(jobs, "sweep", stop)
    with pytest.raises(StoreError, match="full"):
        run_job(store, request)
    found = job_state(store, folder.name)
    assert found.status == "failed"
    assert "disk is full" in found.message
    assert not (folder / jobs.SPARE).exists()


def test_a_damaged_state_hides_no_job_and_can_be_gone_on_with(tmp_path):
    request, store = world_request(tmp_path, seeds=1, **SMALL), Store(tmp_path / "store")
    job_id = jobs.job_id_of(request)
    folder = jobs._prepare(store, job_id, request)
    now = jobs._now()
    jobs._write(folder, jobs.JobState(job_id, "x", "cancelled", started=now, updated=now))
    whole = (folder / jobs.STATE).read_bytes()
    for damaged in (
        b"",
        b"[]",
        b'{"job_id": 3}',
        whole.replace(b"cancelled", b"done"),
        whole.replace(b"0", b"1", 1),
    ):
        (folder / jobs.STATE).write_bytes(damaged)
        (found,) = list_jobs(store)
        assert found.status == "interrupted"
        assert "damaged" in found.message
        assert "resume" in found.message
        assert job_request(store, job_id) == request
    state = {**asdict(jobs.JobState(job_id, "x", "cancelled")), "of a later version": 1}
    write_document(folder / jobs.STATE, state, jobs.SCHEMA)
    assert list_jobs(store)[0].status == "cancelled"
    asked = (folder / jobs.REQUEST).read_text()
    (folder / jobs.REQUEST).write_text(asked.replace('"seeds": 1', '"seeds": 3'))
    with pytest.raises(RequestError, match="request.json is not what was written"):
        job_request(store, job_id)

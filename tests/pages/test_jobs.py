"""Jobs on the screen: one in line says how many are before it, and both can be cancelled."""

from __future__ import annotations

from engine.audit import jobs
from engine.audit.jobs import JobState
from engine.core.locks import taken
from engine.store.runs import Store
from tests.pages.checks import assert_calm, opened, use_store


def test_a_job_in_line_says_how_many_are_before_it(tmp_path, monkeypatch):
    store = Store(use_store(tmp_path, monkeypatch))
    for name in ("a", "b"):
        folder = store.jobs_folder / f"job-{name}"
        folder.mkdir(parents=True)
        jobs._write(folder, JobState(folder.name, name, "queued", started=name, updated=jobs._now()))
    with taken(jobs.line_lock(store)):
        at = opened("jobs", run=None)
        assert_calm(at)
        said = [bar.proto.text.replace("\\", "") for bar in at.get("progress")]
        assert said == ["In line: 1 audit before it.", "Starting"]
        next(one for one in at.button if one.key == "cancel_list_job-b").click().run()
    assert jobs.job_state(store, "job-b").status == "cancelled" and jobs.job_state(store, "job-a").status == "queued"

"""Jobs on the screen: one in line says how many are before it, and both can be cancelled."""

from streamlit.testing.v1 import AppTest

from engine.audit import jobs
from engine.audit.jobs import JobState
from engine.core.files import taken
from engine.core.words import PREDICTED
from engine.store.runs import Store
from tests.pages.checks import ROOT, assert_calm, opened, use_store, words_of


def written(store, name, status, phase="", **more):
    """The folder of a job as it stands."""
    folder = store.jobs_folder / f"job-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    state = JobState(folder.name, name, status, phase, started=name, updated=jobs._now(), **more)
    jobs._write(folder, state)
    return folder


def test_a_job_in_line_says_how_many_are_before_it(tmp_path, monkeypatch):
    store = Store(use_store(tmp_path, monkeypatch))
    for name in "ab":
        written(store, name, "queued")
    with taken(jobs.line_lock(store)):
        at = opened("jobs", run=None)
        assert_calm(at)
        said = [bar.proto.text.replace("\\", "") for bar in at.get("progress")]
        assert said == ["Waiting: 1 audit is ahead of it.", "Starting"]
        next(one for one in at.button if one.key == "cancel_list_job-b").click().run()
    assert jobs.job_state(store, "job-b").status == "cancelled"
    assert jobs.job_state(store, "job-a").status == "queued"


def test_what_a_running_job_says_of_its_time_replaces_what_was_predicted(tmp_path, monkeypatch):
    store = Store(use_store(tmp_path, monkeypatch))
    predicted = (
        f"{PREDICTED} about 29 minutes to score heads. A head's 95 % interval about 0.02 wide."
    )
    note = f"Its judge knows few words.\n{predicted}"
    folder = written(store, "a", "running", "predict", note=note)
    with taken(folder / "lock"):
        assert predicted in words_of(opened("jobs", run=None))
        written(store, "a", "running", "score heads", note=note, done=1, total=9, eta=240.0)
        at = opened("jobs", run=None)
        said = words_of(at)
    assert "11 % done" in at.get("progress")[0].proto.text.replace("\\", "")
    assert "Its judge knows few words.\nA head's 95 % interval about 0.02 wide." in said
    assert "29 minutes" not in said and "No engine runs" in said


def test_redraws_of_a_page_that_was_left_are_none_of_the_new_one(tmp_path, monkeypatch):
    """The browser asks for them until it has heard of the new page, and would be led back."""
    folder = written(Store(use_store(tmp_path, monkeypatch)), "a", "running")
    with taken(folder / "lock"):
        at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
        found = []
        for page in ("jobs", "audits"):
            at.switch_page(f"pages/{page}.py").run()
            assert_calm(at)
            found.append(set(at._fragment_storage._fragments))
    assert len(found[0]) > len(found[1]) > 0 and not found[0] & found[1]

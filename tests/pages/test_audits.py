"""The list of audits: called something else, deleted and had back, compared when ticked; names of
users are escaped."""

import pytest
from streamlit.testing.v1 import AppTest

from engine.audit import jobs
from engine.audit.jobs import JobState
from engine.core.files import taken
from engine.core.words import PREDICTED
from engine.store.runs import Store
from pages.shared import cache
from tests.made_up import small
from tests.pages.checks import ROOT, assert_calm, opened, use_store, words_of

TITLE = "<b>mine</b> [a link](javascript:alert(1))"


@pytest.fixture
def store(tmp_path, monkeypatch):
    return Store(use_store(tmp_path, monkeypatch))


@pytest.fixture
def two(store):
    for run_id in ("one-run", "two-run"):
        small("language_models", store.root, run_id)
    return store


def test_an_audit_is_called_something_else(two):
    at = opened("audits", run=None)
    at.text_input(key="title_of_one-run").set_value(TITLE)
    at.button(key="rename_one-run").click().run()
    assert_calm(at)
    assert [item.value for item in at.text].count(TITLE) == 1
    assert cache.open_run("one-run").meta["title"] == TITLE
    assert not any(
        "javascript" in item.value for kind in ("markdown", "caption") for item in at.get(kind)
    )


def test_a_deleted_audit_is_had_back(two):
    at = opened("audits", run="two-run")
    at.button(key="delete_one-run").click().run()
    assert_calm(at)
    assert two.ids() == ["two-run"] and "was moved to the trash" in words_of(at)
    assert "one-run" not in listed(at)
    at.button(key="undo_delete").click().run()
    assert two.ids() == ["one-run", "two-run"] and "trash" not in words_of(at)


def listed(at):
    keys = [button.key for button in at.button]
    return [key.removeprefix("open_") for key in keys if key.startswith("open_")]


def test_audits_are_searched_and_sorted(two):
    two.rename("one-run", "Zebra")
    at = opened("audits", run=None)
    assert listed(at) == ["one-run", "two-run"]
    at.selectbox(key="sorted").set_value("title").run()
    assert listed(at) == ["two-run", "one-run"]
    at.text_input(key="search_audits").set_value("zeb").run()
    assert_calm(at)
    assert listed(at) == ["one-run"]
    at.text_input(key="search_audits").set_value("nobody").run()
    assert listed(at) == [] and "No audit holds these words." in at.info[0].value


def test_favourites_stand_first(two):
    at = opened("audits", run=None)
    at.button(key="favour_two-run").click().run()
    assert_calm(at)
    assert listed(at) == ["two-run", "one-run"]
    at.button(key="favour_two-run").click().run()
    assert two.favourites() == set()


def test_the_audit_on_screen_can_be_deleted_too(two):
    at = opened("audits", run="one-run")
    at.button(key="delete_one-run").click().run()
    assert_calm(at)
    assert at.query_params["run"] == "two-run"
    assert not at.warning


def test_what_is_ticked_is_compared_where_it_measures_the_same(two):
    small("image_classifiers", two.root, "unlike")
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    at.switch_page("pages/audits.py").run()
    assert at.button(key="compare_ticked").disabled
    at.checkbox(key="ticked_one-run").check()
    at.checkbox(key="ticked_unlike").check().run()
    assert at.button(key="compare_ticked").disabled and "different things" in words_of(at)
    at.checkbox(key="ticked_unlike").uncheck()
    at.checkbox(key="ticked_two-run").check().run()
    at.button(key="compare_ticked").click().run()
    assert_calm(at)
    assert (
        at.title[0].value == "What differs between two audits?"
        and len(at.multiselect[0].value) == 1
    )


# Jobs on the screen: one in line says how many are before it, and both can be cancelled.


def written(store, name, status, phase="", **more):
    """The folder of a job as it stands."""
    folder = store.jobs_folder / f"job-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    state = JobState(folder.name, name, status, phase, started=name, updated=jobs._now(), **more)
    jobs._write(folder, state)
    return folder


def test_a_job_in_line_says_how_many_are_before_it(store):
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


def test_what_a_running_job_says_of_its_time_replaces_what_was_predicted(store):
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


def test_redraws_of_a_page_that_was_left_are_none_of_the_new_one(store):
    """The browser asks for them until it has heard of the new page, and would be led back."""
    folder = written(store, "a", "running")
    with taken(folder / "lock"):
        at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
        found = []
        for page in ("jobs", "audits"):
            at.switch_page(f"pages/{page}.py").run()
            assert_calm(at)
            found.append(set(at._fragment_storage._fragments))
    assert len(found[0]) > len(found[1]) > 0 and not found[0] & found[1]

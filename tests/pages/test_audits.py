"""The list of audits: called something else, deleted and had back, compared when ticked; names of
users are escaped."""

import pytest
from streamlit.testing.v1 import AppTest

from engine.store.runs import Store
from pages.shared import cache
from tests.made_up import small
from tests.pages.checks import ROOT, assert_calm, opened, use_store, words_of

TITLE = "<b>mine</b> [a link](javascript:alert(1))"


@pytest.fixture
def two(tmp_path, monkeypatch):
    for run_id in ("one-run", "two-run"):
        small("language_models", tmp_path, run_id)
    return Store(use_store(tmp_path, monkeypatch))


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

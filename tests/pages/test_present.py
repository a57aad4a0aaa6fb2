"""Present: five steps of every kind of audit, short and linkable."""

from __future__ import annotations

import pytest

from engine.audit.tracks import tracks
from engine.report import story
from engine.report.contents import default_choice
from tests.made_up import make, small
from tests.pages.checks import assert_calm, html_of, opened, use_store


@pytest.fixture(scope="module", params=sorted(tracks()))
def told(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    return folder, small(request.param, folder, "small-run")


def test_every_step_is_short_and_has_a_picture_or_says_why(told):
    run = told[1]
    for name in story.TITLES:
        step = story.step(run, default_choice(run), name)
        assert 3 < len(step.sentence.split()) <= story.LONGEST, step.sentence
        assert step.sentence.endswith(".") and step.title == story.TITLES[name]


def test_every_step_opens_by_its_link(told, monkeypatch):
    folder, run = told
    use_store(folder, monkeypatch)
    for number, title in enumerate(story.TITLES.values(), start=1):
        at = opened("present", run.id, step=str(number))
        assert_calm(at)
        assert f"{number} of 5" in html_of(at)
        assert at.title[0].value == title
        assert at.query_params["step"] == [str(number)] or at.query_params["step"] == str(number)


@pytest.fixture
def run_id(tmp_path, monkeypatch):
    use_store(tmp_path, monkeypatch)
    return make("language_models", tmp_path, "synthetic-run").id


def test_buttons_turn_the_steps_and_stop_at_the_ends(run_id):
    at = opened("present", run_id, step="nonsense")
    assert at.button(key="turn_Left").disabled and "1 of 5" in html_of(at)
    for number in range(2, 6):
        at.button(key="turn_Right").click().run()
        assert f"{number} of 5" in html_of(at)
    assert at.button(key="turn_Right").disabled
    at.button(key="turn_PageUp").click().run()
    assert "4 of 5" in html_of(at)


def test_a_key_pressed_before_the_step_is_drawn_goes_on_from_it(run_id):
    at = opened("present", run_id, step="2")
    at.query_params["step"] = "3"  # where the first press led; its buttons are not drawn yet
    at.button(key="turn_PageDown").click().run()
    assert "4 of 5" in html_of(at)


def test_all_steps_stand_below_each_other_to_print(run_id):
    at = opened("present", run_id, step="all")
    assert_calm(at)
    assert [item.value for item in at.title] == list(story.TITLES.values())


def test_the_address_says_what_is_shown(run_id):
    at = opened("present", run_id, axis="Religion", sparsity="10 %")
    assert at.query_params["axis"] in ("Religion", ["Religion"])
    assert at.query_params["sparsity"] in ("10 %", ["10 %"])

"""Present: five steps of every kind of audit, short and linkable."""

import pytest

from engine.audit.tracks import tracks
from engine.report import story
from engine.report.charts import lookup
from engine.report.contents import default_choice
from engine.store.runs import EMBEDDED, Store, find_run
from tests.made_up import make, small
from tests.pages.checks import assert_calm, html_of, opened, use_store
from tests.places import demo_of


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


@pytest.mark.parametrize("track", sorted(tracks()))
def test_the_chart_of_a_slide_shows_the_measure_that_its_sentence_names_first(track):
    run = find_run(demo_of(track), [Store(EMBEDDED, read_only=True)])
    for variant in map(str, lookup.named(run)["variant"].iloc[1:6]):
        choice = default_choice(run, variant=variant)
        reading = lookup.reading(run, choice)
        for name in ("who_pays", "recommendation"):
            step = story.step(run, choice, name)
            said = step.sentence.casefold()
            measures = [one.name for one in (reading.group, reading.harm, reading.quality)]
            measures += ["FLOPs", "bytes"]
            named = sorted((said.find(one.casefold()), one) for one in measures)
            first = next((one for place, one in named if place >= 0), reading.group.name)
            picture = step.picture
            shown = f"{picture.question} {picture.whole().to_json()}".casefold()
            assert first.casefold() in shown, (variant, step.sentence, picture.question)


def test_all_steps_stand_below_each_other_to_print(told, monkeypatch):
    folder, run = told
    use_store(folder, monkeypatch)
    at = opened("present", run.id, step="all")
    assert_calm(at)
    assert [item.value for item in at.title] == list(story.TITLES.values())


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    return make("language_models", tmp_path_factory.mktemp("store"), "synthetic-run")


@pytest.fixture
def run_id(synthetic, monkeypatch):
    use_store(synthetic.path.parents[1], monkeypatch)
    return synthetic.id


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


def test_the_address_says_what_is_shown(run_id):
    at = opened("present", run_id, step="2", axis="Religion", sparsity="10 %")
    assert at.title[0].value == story.TITLES["cut"] and "2 of 5" in html_of(at)
    assert at.query_params["step"] in ("2", ["2"])
    assert at.query_params["axis"] in ("Religion", ["Religion"])
    assert at.query_params["sparsity"] in ("10 %", ["10 %"])

"""Forms of a new audit: what is typed is what is asked, and what is refused is told in the form's own words."""

from __future__ import annotations

import json
import re

import pytest
from streamlit.testing.v1 import AppTest

from engine.audit.tracks import request_from
from engine.classifiers.layout import MIN_IMAGES, MIN_PER_CLASS
from engine.core.errors import Fault, RequestError
from engine.tracks.fair_training.methods.base import fair_methods
from pages.shared import fair_form, jobs
from tests.pages.checks import assert_calm, use_store

FORMS = ("fair", "image", "text", "heads")
SCRIPT = """
import json
import streamlit as st
from pages.shared import fair_form, image_form, text_form, request_form
ask = {{"fair": fair_form.ask, "image": image_form.ask, "text": text_form.ask, "heads": request_form._heads}}["{form}"]
request, faults = ask()
st.json(json.dumps({{"request": request, "faults": [str(fault) for fault in faults]}}))
"""
FAIR_NUMBERS = {
    "strength": ("λ (strength)", -1.0),
    "tolerance": ("τ (tolerance)", -0.1),
    "seeds": ("seeds", 0),
    "iterations": ("Weight updates of one training", 0),
    "most": ("Images per split at most", 5),
    "rate": ("Learning rate of the weights", -1.0),
    "batch": ("Images per batch", 1),
    "fair_gap": ("Fair from a gap of", 2.0),
    "within": ("Accuracy that may be lost for it", -1.0),
    "check_every": ("Updates between two looks at validation images", 0),
    "tradeoff_at": ("trade-off sparsity", 150.0),
}


def drawn(form: str, monkeypatch, tmp_path) -> AppTest:
    use_store(tmp_path, monkeypatch)
    at = AppTest.from_string(SCRIPT.format(form=form), default_timeout=60).run()
    assert_calm(at)
    return at


def asked(at: AppTest) -> dict:
    assert_calm(at)
    return json.loads(at.json[0].value)


def number(at: AppTest, key: str) -> object:
    return next(item for item in at.number_input if item.key == f"new_{key}")


def refused(request: dict) -> list[str]:
    """What the engine finds wrong, as `jobs.start` tells it."""
    from engine.tracks.fair_training.request import validate_fair

    with pytest.raises(RequestError) as error:
        validate_fair(request_from(request))
    return [str(jobs.in_the_forms_words(fault)) for fault in error.value.faults]


@pytest.mark.parametrize("form", FORMS)
def test_no_field_has_a_limit_that_keeps_the_last_number_instead(form, monkeypatch, tmp_path):
    at = drawn(form, monkeypatch, tmp_path)
    for toggle in [item for item in at.toggle if item.label == "Fit the dense model first"]:
        at = toggle.set_value(True).run()
    assert len(at.number_input) > 5
    assert [item.label for item in at.number_input if item.min is not None or item.max is not None] == []


def test_every_bad_number_of_fair_training_is_asked_as_typed_and_refused(monkeypatch, tmp_path):
    at = drawn("fair", monkeypatch, tmp_path)
    for key, (_, value) in FAIR_NUMBERS.items():
        number(at, f"fair_{key}").set_value(value)
    found = asked(at.run())
    assert found["request"]["strength"] == -1.0 and found["request"]["tolerance"] == -0.1
    assert found["request"]["recipe"] == {"rate": -1.0, "batch": 1}
    said = refused(found["request"])
    for where, _ in FAIR_NUMBERS.values():
        assert any(text.startswith(f"{where}: ") for text in said), where
    assert not any("_" in text for text in said)


def test_bad_shares_are_told_in_percent_and_a_zero_is_not_dropped(monkeypatch, tmp_path):
    at = drawn("fair", monkeypatch, tmp_path)
    at.text_input(key="new_fair_sparsities").set_value("0, 50, 150")
    number(at, "fair_tradeoff_at").set_value(-5.0)
    found = asked(at.run())
    assert found["request"]["sparsities"] == [0.0, 0.5, 1.5] and found["faults"] == []
    said = refused(found["request"])
    assert any(text.startswith("sparsity: 0 % is not between 0 and 100 %.") for text in said)
    assert any(text.startswith("sparsity: 150 % is not") and "such as 48.8 %" in text for text in said)
    assert any(text.startswith("trade-off sparsity: -5 % is not between 0 and 100 %.") for text in said)
    assert not re.search(r"\b[01]\.\d", " ".join(said)), "no share is left"


def test_a_share_out_of_reach_is_told_in_percent_and_counts_stay():
    said = refused({"track": "fair_training", "model": "demo-resnet", "data": "avatars", "axes": ["male"],
                    "sparsities": [0.999]})  # fmt: skip
    assert said[0].startswith("sparsity: 99.9 % is out of reach for filters: 8 of 480 must stay")
    assert re.search(r"Ask for \d\d\.\d % at most\.$", said[0])


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault("sparsity", "1.5 is outside [0, 1).", "Give shares such as 0.05,0.1,0.2."),
         "sparsity: 150 % is outside 0 % to under 100 %. Give percentages such as 5 %, 10 %, 20 %."),
        (Fault("sparsity", "1e-05 is too small to tell from 0.", "Give at least 0.0005."),
         "sparsity: 0.001 % is too small to tell from 0. Give at least 0.05 %."),
        (Fault("fair gap", "1.5 is not allowed.", "Give a share from 0 to 1."),
         "Fair from a gap of: 1.5 is not allowed. Give a share from 0 to 1."),
        (Fault("mask_rate", "-1.0 is not allowed.", "Give a number."),
         "mask rate: -1.0 is not allowed. Give a number."),
    ],
)  # fmt: skip
def test_faults_in_the_words_of_the_forms(fault, said):
    assert str(jobs.in_the_forms_words(fault)) == said


def test_start_tells_the_engines_faults_in_the_words_of_the_form(monkeypatch):
    def refuse(_: dict) -> str:
        raise RequestError(Fault("sparsity", "1.5 is not a share between 0 and 1.", "Give shares such as 0.488."))

    monkeypatch.setattr(jobs, "_ask", refuse)
    with pytest.raises(RequestError) as error:
        jobs.start({"track": "fair_training"}, [Fault("λ of the trade-off", "'x' is not a number.", "Write numbers.")])
    first, second = map(str, error.value.faults)
    assert first.startswith("λ of the trade-off")
    assert second == "sparsity: 150 % is not between 0 and 100 %. Give percentages such as 48.8 %."


def test_a_zero_among_the_shares_of_texts_is_asked_too(monkeypatch, tmp_path):
    from engine.tracks.text_classifiers.request import validate_text

    at = drawn("text", monkeypatch, tmp_path)
    at.text_input(key="new_text_sparsities").set_value("0, 50")
    request = asked(at.run())["request"]
    assert request["sparsities"] == [0.0, 0.5]
    with pytest.raises(RequestError) as error:
        validate_text(request_from(request))
    assert "sparsity: 0 % is not allowed." in str(jobs.in_the_forms_words(error.value.faults[0]))


@pytest.mark.parametrize("form", ["fair", "image"])
def test_too_few_images_for_a_gap_are_warned_of_beforehand(form, monkeypatch, tmp_path):
    at = drawn(form, monkeypatch, tmp_path)

    def warned() -> str:
        return next(item.value for item in at.caption if "no gap is measured" in item.value)

    assert f"fewer than {MIN_IMAGES} images" in warned() and f"fewer than {MIN_PER_CLASS} of a class" in warned()
    number(at, f"{form}_most").set_value(500).run()
    assert asked(at)["request"]["max_images"] == 500
    assert f"Of 500 images that befalls a subgroup and class of less than {MIN_PER_CLASS / 5:g} % of them." in warned()


def test_training_on_validation_images_says_how_few_are_left_to_look_at(monkeypatch, tmp_path):
    at = drawn("fair", monkeypatch, tmp_path)
    at.selectbox(key="new_fair_tune_on").set_value("validation").run()
    assert_calm(at)
    assert any(item.value.startswith("Only 20 % of the validation images are left") for item in at.caption)


def test_the_length_says_that_it_is_not_the_same_work():
    usual = {setting.name: setting.default for setting in fair_methods()["bifp-str"].settings}
    read = 1 + (1 - usual["settle"]) / usual["inner"]
    assert f"BiFP reads a second batch, by default {read:g} times the images" in fair_form.SAME_UPDATES
    assert "once per round" in fair_form.SAME_UPDATES


def test_every_setting_of_a_method_has_a_label_that_says_something():
    for name, method in fair_methods().items():
        labels = [setting.label for setting in method.settings]
        assert all(len(label.split()) > 1 for label in labels), (name, labels)
        assert len(set(labels)) == len(labels)

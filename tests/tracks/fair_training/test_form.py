"""The form of a fair training: what is typed is asked, what is refused is told in percent and in
the form's words."""

import re

from engine.classifiers.layout import MIN_IMAGES, MIN_PER_CLASS
from tests.pages.forms import asked, drawn, key, number, refused

FAIR = "fair_training"


def test_a_share_out_of_reach_is_told_in_percent_and_counts_stay():
    asked_for = {
        "track": FAIR,
        "model": "demo-resnet",
        "data": "avatars",
        "axes": ["male"],
        "sparsities": [0.999],
    }
    assert refused(asked_for)[0].startswith(
        "Sparsities: 99.9 % is out of reach for FLOPs: one filter per group"
    )
    said = refused({**asked_for, "equal": "filters"})
    assert said[0].startswith("Sparsities: 99.9 % is out of reach for filters: 8 of 480 must stay")
    assert re.search(r"Ask for \d\d\.\d % at most\.$", said[0])


def test_too_few_images_for_a_gap_are_warned_of_beforehand(monkeypatch, tmp_path):
    at = drawn(FAIR, monkeypatch, tmp_path)

    def warned() -> str:
        return next(item.value for item in at.caption if "no verdict and no gap" in item.value)

    assert (
        f"fewer than {MIN_IMAGES} images" in warned()
        and f"fewer than {MIN_PER_CLASS} of a class" in warned()
    )
    number(at, FAIR, "max_images").set_value(500).run()
    assert asked(at)["request"]["max_images"] == 500
    assert (
        "With 500 images that holds for a subgroup and class with less than"
        f" {MIN_PER_CLASS / 5:g} % of them." in warned()
    )


def test_training_on_validation_images_says_how_few_are_left_to_look_at(monkeypatch, tmp_path):
    at = drawn(FAIR, monkeypatch, tmp_path)
    at.selectbox(key=key(FAIR, "tune_on")).set_value("validation").run()
    assert asked(at)["request"]["tune_on"] == "validation"
    assert any(
        item.value.startswith("Only 20 % of the validation images are left") for item in at.caption
    )

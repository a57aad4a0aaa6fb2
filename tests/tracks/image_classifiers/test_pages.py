"""Every page with the run of an image classifier: alone and through app.py, with hostile names."""

import re

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from pages.tabs.changed import _order
from tests.pages.checks import (
    assert_calm,
    charts_of,
    html_of,
    opened,
    use_store,
    words_of,
)
from tests.tracks.image_classifiers.made_up_run import make_run

IMAGE_RUN, HEADS_RUN = "image-run", "heads-run"


@pytest.fixture(scope="module")
def images_store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    make_run(folder, IMAGE_RUN)
    return folder


@pytest.fixture(scope="module")
def of_heads(tmp_path_factory):
    folder = tmp_path_factory.mktemp("of_heads")
    make_run(folder, HEADS_RUN, heads=True)
    return folder


@pytest.mark.parametrize(
    ("page", "tab"),
    [
        *(("filters", tab) for tab in ("who_pays", "layers", "scores", "speed")),
        ("summary", ""),
        ("bench", ""),
        *(
            pytest.param(page, "", marks=pytest.mark.slow)
            for page in ("trade_off", "examples", "measured", "export", "present", "picture")
        ),
    ],
)
def test_units_of_a_vision_transformer_are_called_heads(of_heads, monkeypatch, page, tab):
    use_store(of_heads, monkeypatch)
    at = opened(
        page, run=HEADS_RUN, method="AutoBot", speedup="16\u00d7", **({"tab": tab} if tab else {})
    )
    assert_calm(at)
    texts = words_of(at) + "".join(item.proto.spec for item in at.get("plotly_chart"))
    texts += "".join(" ".join(map(str, table.value.columns)) for table in at.dataframe)
    assert re.findall(r".{30}\b[Ff]ilters?\b.{20}", texts) == []


@pytest.fixture
def images(images_store, monkeypatch):
    return use_store(images_store, monkeypatch)


def test_published_scores_do_not_need_a_run_of_heads(images):
    at = opened("heads", run=IMAGE_RUN, source="Published scores")
    assert_calm(at)
    assert "Or a folder or file" in "".join(item.label for item in at.text_input)


@pytest.mark.parametrize(
    ("page", "tab", "charts"),
    [
        ("filters", "Who pays", 4),
        ("filters", "Layers", 2),
        ("filters", "Scores", 1),
        ("filters", "Speed", 2),
        ("examples", "", 1),
    ],
)
def test_every_chart_about_filters_is_there(images, page, tab, charts):
    place = {"tab": tab} if tab else {}
    at = opened(page, run=IMAGE_RUN, method="AutoBot", speedup="16\u00d7", **place)
    assert len(charts_of(at)) == charts


def test_the_gallery_shows_pictures_safely_and_by_subgroup(images):
    at = opened("examples", run=IMAGE_RUN, speedup="16\u00d7")
    html = html_of(at)
    pictures = re.findall(r"<img [^>]*>", html)
    assert 0 < len(pictures) <= 48
    assert all(
        re.fullmatch(
            r'<img src="data:image/png;base64,[A-Za-z0-9+/=]+" alt="Test image" loading="lazy">',
            one,
        )
        for one in pictures
    )
    at.selectbox(key="changed_group").set_value("male").run()
    assert_calm(at)
    assert len(re.findall('class="pa-shot"', html_of(at))) < len(
        re.findall('class="pa-shot"', html)
    )
    first = html_of(at)
    at.selectbox(key="trial").set_value(2).run()
    assert_calm(at)
    assert html_of(at) != first


@pytest.mark.parametrize(
    ("pictures", "order"),
    [
        (
            [b"x", None],
            "2 shown, those with a picture first, then where the cut model is surest first. Pict",
        ),
        ([b"x", b"x"], "2 shown, where the cut model is surest first."),
        (
            [None, None],
            "2 shown, where the cut model is surest first. Pictures were kept of 0 of them.",
        ),
    ],
)
def test_the_caption_of_the_gallery_tells_the_order_it_has(pictures, order):
    rows = pd.DataFrame({"png": pictures, "kind": ["right", "right"]})
    assert _order(rows, rows, "images").startswith(order)


def test_what_is_no_picture_is_not_shown_as_one():
    script = """
from pages.shared import safe
shots = [safe.Shot(b"<svg onload=alert(1)>", "<b>t</b>", ("a",)), safe.Shot(None, "u", ()),
         safe.Shot(safe.PNG + b"0" * 300_000, "v", ())]
safe.gallery(shots)
"""
    html = html_of(AppTest.from_string(script).run())
    assert (
        "<img" not in html
        and "<svg" not in html
        and "<b>" not in html
        and html.count("no picture kept") == 3
    )


def test_the_trial_whose_mask_is_taken_can_be_chosen(images):
    at = opened("export", run=IMAGE_RUN, method="Taylor + PW", speedup="16\u00d7")
    assert_calm(at)
    picker = at.selectbox(key="taken")
    assert picker.options == [f"Taylor + PW, 16\u00d7, trial {trial}" for trial in range(3)]
    assert not [item for item in at.toggle if item.key == "export_texts"], (
        "an image run holds no texts"
    )
    assert "16_2" in at.selectbox(key="taken").set_value("taylor+pw-16x#2").run().code[
        0
    ].value.replace("x", "")


def test_what_is_here_to_start_from_stands_under_its_kind(images):
    shown = words_of(opened("models", run=IMAGE_RUN))
    assert "Image classifiers" in shown and "Language models" in shown

"""The form of a new audit, whatever the track: what is typed is what is asked, faults in the form's
own words."""

import pytest
from streamlit.testing.v1 import AppTest

from engine.audit.fields import fields_of
from engine.audit.tracks import request_from, tracks
from engine.core.errors import Fault
from pages.shared import jobs
from tests.pages.checks import ROOT, assert_calm, opened, use_store
from tests.pages.forms import asked, drawn, key, refused

USUAL = (
    "integer",
    "number",
    "numbers",
    "choice",
    "flag",
    "pairs",
    "settings",
    "settings per method",
)
"""Kinds of fields that the form starts as the command line does."""


@pytest.mark.parametrize("track", tracks())
def test_the_form_asks_what_is_declared_as_it_is_without_words(track, monkeypatch, tmp_path):
    """Every field that has a section and nothing else. What is left as it is is what the request
    has without words, but for what the form starts with and the command line does not: names and
    lists of methods. No field has a limit, which would keep the last number instead."""
    at = drawn(track, monkeypatch, tmp_path)
    found, fields = asked(at), fields_of(tracks()[track].part("request"))
    request = found["request"]
    declared = {field.name for field in fields if field.section}
    hidden = {field.name for field in fields if field.shown}
    assert declared - hidden <= set(request) - {"track"} <= declared and found["faults"] == []
    assert request_from(request).track == track
    for field in fields:
        if field.kind in USUAL and field.name in request:
            usual = list(field.default) if isinstance(field.default, tuple) else field.default
            assert request[field.name] == usual, field.name
    for toggle in [item for item in at.toggle if item.label == "Fit the dense model first"]:
        at = toggle.set_value(True).run()
    numbers = at.number_input
    assert len(numbers) > 5 and {(item.min, item.max) for item in numbers} == {(None, None)}


def test_the_choice_of_what_is_cut_lists_the_tracks(monkeypatch, tmp_path):
    use_store(tmp_path, monkeypatch)
    at = opened("new_audit", run=None)
    assert_calm(at)
    control = at.get("button_group")[0]
    assert [option.content for option in control.proto.options] == [
        track.about for track in tracks().values()
    ]


@pytest.mark.parametrize(
    "track",
    [
        name
        for name in tracks()
        if any(field.name == "sparsities" for field in fields_of(tracks()[name].part("request")))
    ],
)
def test_shares_are_asked_in_percent_and_what_is_none_is_told(track, monkeypatch, tmp_path):
    at = drawn(track, monkeypatch, tmp_path)
    at.text_input(key=key(track, "sparsities")).set_value("0; 12.5 %, 150, many")
    found = asked(at.run())
    assert found["request"]["sparsities"] == [0.0, 0.125, 1.5]
    said = refused(found["request"])
    assert any(text.startswith("Sparsities: 150 % is not allowed. Give shares") for text in said)
    assert found["faults"][0].startswith(
        "Sparsities: 'many' is not a number. Write percentages such as "
    )


def percent_track():
    """A track that asks for shares of what is cut."""
    return next(
        name
        for name in tracks()
        if "sparsity"
        in {field.called for field in fields_of(tracks()[name].part("request")) if field.percent}
    )


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            Fault(
                "sparsity",
                "1.5 is not allowed.",
                "Give numbers from 0 to below 1, such as 0.05,0.1,0.2.",
            ),
            (
                "Sparsities: 150 % is not allowed. Give shares from 0 % to below 100 %, such as 5"
                " %, 10 %, 20 %."
            ),
        ),
        (
            Fault("sparsity", "1e-05 is too small to tell from 0.", "Give at least 0.0005."),
            "Sparsities: 0.001 % is too small to tell from 0 %. Give at least 0.05 %.",
        ),
        (
            Fault("setting of pf, mask_rate", "-1.0 is not allowed.", "Give a number."),
            "setting of pf, mask rate: -1.0 is not allowed. Give a number.",
        ),
    ],
)
def test_faults_in_the_words_of_the_forms(fault, said):
    assert str(jobs.in_the_forms_words(fault, percent_track())) == said


@pytest.mark.parametrize("track", list(tracks())[::2])
def test_what_stands_in_the_form_is_there_after_a_look_at_another_page(
    track, monkeypatch, tmp_path
):
    use_store(tmp_path, monkeypatch)
    at = (
        AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
        .run()
        .switch_page("pages/new_audit.py")
        .run()
    )
    if track != next(iter(tracks())):
        next(one for one in at.get("button_group") if one.key == "new_track").set_value(track).run()
    typed = {
        one.key: f"0.5{at_}"
        for at_, one in enumerate(at.text_input)
        if str(one.key).startswith(f"new_{track}")
    }
    for item in at.text_input:
        if item.key in typed:
            item.set_value(typed[item.key])
    at.run()
    for page in ("audits", "new_audit"):
        at = at.switch_page(f"pages/{page}.py").run()
        assert not at.exception
    assert typed and {item.key: item.value for item in at.text_input if item.key in typed} == typed

"""JSON that users bring: masks, judges, cards of cut models."""

import json

import pytest

from engine.core.errors import RequestError
from engine.store.user_json import NUMBER, Form, fits, read_user_json

FORM = Form(
    "thing",
    "Give a thing.",
    {"name": str, "n": int},
    {"note": str, "share": (*NUMBER, type(None))},
    kind="t",
)
GOOD = {"schema": 1, "kind": "t", "name": "a", "n": 3, "note": "x", "share": None}


def refusal(tmp_path, text):
    path = tmp_path / "thing.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    with pytest.raises(RequestError) as found:
        read_user_json(path, FORM)
    return str(found.value)


def test_fields_that_nobody_knows_are_left_out(tmp_path):
    path = tmp_path / "thing.json"
    path.write_text(json.dumps({**GOOD, "from_later": [1]}))
    assert read_user_json(path, FORM) == {"name": "a", "n": 3, "note": "x", "share": None}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 2}, "Known: schema 1, kind 't'. A newer version may have written it"),
        ({"schema": True}, "has schema True"),
        ({"schema": "1"}, "has schema '1'"),
        ({"kind": ["t"]}, "has schema 1, kind"),
        ({"name": 5}, "thing name: is missing or of the wrong kind"),
        ({"n": 3.0}, "thing n"),
        ({"n": True}, "thing n"),
        ({"note": {"a": 1}}, "thing note: is of the wrong kind"),
        ({"share": False}, "thing share"),
        ({"share": "0.5"}, "thing share"),
    ],
)
def test_values_of_the_wrong_kind(tmp_path, change, said):
    assert said in refusal(tmp_path, {**GOOD, **change})


def test_a_codec_says_nothing_in_its_own_words(tmp_path):
    path = tmp_path / "thing.json"
    path.write_bytes(b'{"name": "\xff"}')
    with pytest.raises(RequestError, match="not UTF-8 text from byte 10 on") as found:
        read_user_json(path, FORM)
    assert "decode" not in str(found.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "not an object"),
        ("", "no JSON object"),
        ("[" * 99999, "no JSON object"),
        ("x" * 17_000_000, "too large"),
        ('{"schema": 1, "schema": 1}', "'schema' is there twice"),
        ('{"n": NaN}', "NaN is no number"),
        ('{"n": -Infinity}', "-Infinity is no number"),
    ],
)
def test_what_is_no_such_document(tmp_path, text, said):
    assert said in refusal(tmp_path, text)


def test_all_faults_are_told_together(tmp_path):
    assert refusal(tmp_path, {"schema": 1, "kind": "t", "note": 1}).count("thing ") == 3
    assert fits(1, NUMBER) and not fits(True, NUMBER) and fits(True, bool)

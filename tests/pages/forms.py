"""What tests of the form share: drawing that of one track, reading what it asks."""

from __future__ import annotations

import json

import pytest
from streamlit.testing.v1 import AppTest

from engine.audit.tracks import request_from, track_of_request
from engine.core.errors import RequestError
from pages.shared import jobs
from tests.pages.checks import assert_calm, use_store

SCRIPT = """
import json
import streamlit as st
from pages.shared import form
request, faults = form.ask_of("{track}")
st.json(json.dumps({{"request": request, "faults": [str(fault) for fault in faults]}}))
"""


def drawn(track: str, monkeypatch, tmp_path, **typed: object) -> AppTest:
    """The form, with what was typed into its fields before: a test cannot type into a select
    box."""
    use_store(tmp_path, monkeypatch)
    at = AppTest.from_string(SCRIPT.format(track=track), default_timeout=60)
    for field, value in typed.items():
        at.session_state[key(track, field)] = value
    at.run()
    assert_calm(at)
    return at


def asked(at: AppTest) -> dict:
    """The request and the faults of the form as it stands."""
    assert_calm(at)
    return json.loads(at.json[0].value)


def key(track: str, field: str) -> str:
    return f"new_{track}_{field}"


def number(at: AppTest, track: str, field: str):
    return next(item for item in at.number_input if item.key == key(track, field))


def refused(request: dict) -> list[str]:
    """What the engine finds wrong, as `jobs.start` tells it."""
    made = request_from(request)
    with pytest.raises(RequestError) as error:
        track_of_request(made).part("validate")(made)
    return [str(jobs.in_the_forms_words(fault, made.track)) for fault in error.value.faults]

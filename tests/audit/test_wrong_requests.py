"""Wrong requests of every track: all that is wrong is named at once, each with what would do.

The table of a track is `wrong_requests.json` in its folder: fields of its smallest audit that are
set to something wrong, and what must be said of them.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from engine.audit.tracks import request_from, track_of_request, tracks
from engine.core.errors import RequestError
from tests.audit.run_checks import smallest_request
from tests.places import ROOT


def rows() -> list[Any]:
    """(track, changed fields, words that are said) of every row of every table."""
    found = []
    for track in tracks():
        table = ROOT / "tests" / "tracks" / track / "wrong_requests.json"
        for change, said in json.loads(table.read_text(encoding="utf-8")):
            found.append(pytest.param(track, change, said, id=f"{track}-{'-'.join(change)}"))
    return found


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The request of the smallest audit of a track, as JSON."""
    folder = tmp_path_factory.mktemp
    return cache(lambda track: smallest_request(track, folder(track)).to_dict())


@pytest.mark.parametrize(("track", "change", "said"), rows())
def test_what_is_wrong_is_named(sound, track, change, said):
    with pytest.raises(RequestError) as caught:
        request = request_from({**sound(track), **change})
        track_of_request(request).part("validate")(request)
    faults = [str(fault) for fault in caught.value.faults]
    assert [words for words in said if not any(words in one for one in faults)] == [], faults
    assert len(faults) == len(set(faults))


def test_every_track_has_a_row_of_many_faults():
    for track in tracks():
        assert max(len(said) for one, _, said in (row.values for row in rows()) if one == track) > 5

"""The quick audit is a request that holds up, and as small as it says."""

from __future__ import annotations

from engine.audit.tracks import request_from, tracks
from engine.tracks.language_models.request import FIRST, QUICK, validate


def test_the_quick_request_holds_up_and_is_small():
    plan = validate(request_from(QUICK.request("demo-gpt2")))
    request = plan.request
    assert len(request.axes) == 1 and request.seeds == 1 and request.n_controls == 0
    assert (
        len(plan.prompts.table.query("not split.str.startswith('spare')")) <= FIRST["max_prompts"]
    )
    assert str(FIRST["max_prompts"]) in QUICK.said and "wide" in QUICK.said


def test_the_track_says_where_it_is():
    assert tracks()["language_models"].part("quick") is QUICK

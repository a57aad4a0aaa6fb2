"""The quick audit is a request that holds up, and as small as it says."""

from __future__ import annotations

from engine.audit.tracks import request_from, tracks
from engine.models import catalog
from engine.tracks.language_models.request import FIRST, PEOPLE, QUICK, validate


def test_the_quick_request_holds_up_and_is_small():
    plan = validate(request_from(QUICK.request("demo-gpt2")))
    request = plan.request
    assert len(request.axes) == 1 and request.seeds == 1 and request.n_controls == 0
    assert (
        len(plan.prompts.table.query("not split.str.startswith('spare')")) <= FIRST["max_prompts"]
    )
    assert str(FIRST["max_prompts"]) in QUICK.said and "wide" in QUICK.said


def test_another_model_than_a_toy_is_asked_about_people(monkeypatch):
    asked = tracks()["language_models"].part("quick").request
    for is_installed, judge in ((True, "judge-minilm"), (False, "demo-judge")):
        monkeypatch.setattr(catalog, "has_encoder", lambda _, found=is_installed: found)
        assert asked("gpt2")["judge"] == judge and asked("gpt2")["prompts"] == str(PEOPLE)
        assert asked("demo-gpt2")["judge"] == "demo-judge" and not asked("demo-gpt2")["prompts"]

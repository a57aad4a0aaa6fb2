"""Another level of an audit whose variants are trained: a job of the same audit with one level more."""

from __future__ import annotations

import pytest

from engine.report.tracks import tracks
from engine.store.runs import Store
from pages.shared import jobs
from tests.made_up import make
from tests.pages.checks import assert_calm, opened, use_store, words_of

TRAINED = [name for name, track in tracks().items() if track.trains]


@pytest.mark.parametrize("track", TRAINED)
def test_another_level_is_asked_with_everything_else_as_it_was(track, tmp_path, monkeypatch):
    use_store(tmp_path, monkeypatch)
    make(track, tmp_path, "grown")
    started = []
    monkeypatch.setattr(jobs, "start", lambda request: started.append(request) or "job-0")
    monkeypatch.setattr(jobs, "one", lambda job: None)
    at = opened("summary", "grown")
    request, level = Store(tmp_path).open("grown").meta["request"], tracks()[track].level
    value = 31.0
    at.number_input(key="another_level").set_value(value).run()
    at.button[[one.label.startswith("Measure") for one in at.button].index(True)].click().run()
    assert_calm(at)
    wanted = value if level.is_ratio else value / 100
    assert started == [{**request, level.asked: sorted([*map(float, request[level.asked]), wanted]),
                        "title": started[0]["title"]}]  # fmt: skip
    assert "one level more" in words_of(at)

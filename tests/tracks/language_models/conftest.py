"""A judge of words in place of a real one, for audits of the tiny world inside this process."""

from __future__ import annotations

import pytest

from tests.tracks.language_models.worlds import word_judge


@pytest.fixture
def words_judged(monkeypatch) -> None:
    monkeypatch.setattr("engine.models.judge.inspect_judge", lambda name, sha256=None: word_judge().info)
    monkeypatch.setattr("engine.tracks.language_models.opening.load_judge", lambda *args, **kwargs: word_judge())

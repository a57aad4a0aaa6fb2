"""A judge of words in place of a real one, for audits of the tiny world inside this process."""

from __future__ import annotations

import pytest

from tests.tracks.language_models.worlds import word_judge


@pytest.fixture
def words_judged(monkeypatch) -> None:
    judge_words(monkeypatch)


@pytest.fixture(scope="module")
def words_judged_here():
    """For what a whole file shares."""
    with pytest.MonkeyPatch.context() as patch:
        judge_words(patch)
        yield


def judge_words(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("engine.models.judge.inspect_judge", lambda name, sha256=None: word_judge().info)
    patch.setattr("engine.tracks.language_models.opening.load_judge", lambda *args, **kwargs: word_judge())

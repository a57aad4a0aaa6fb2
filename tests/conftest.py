"""What the tests of whole runs share: a store, events, a copy of each file's `run`, a word judge."""

from __future__ import annotations

import shutil

import pytest

from engine.store.runs import Run, Store
from tests.tracks.language_models.worlds import word_judge


@pytest.fixture(scope="module")
def events() -> list:
    return []


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def copy(run, tmp_path) -> Run:
    """The run in a folder of its own, to be damaged."""
    shutil.copytree(run.path, tmp_path / "runs" / run.id)
    return Run(tmp_path / "runs" / run.id)


@pytest.fixture
def words_judged(monkeypatch) -> None:
    """The word judge in place of a real one, for audits of the tiny world inside this process."""
    monkeypatch.setattr("engine.models.judge.inspect_judge", lambda name, sha256=None: word_judge().info)
    monkeypatch.setattr("engine.tracks.language_models.opening.load_judge", lambda *args, **kwargs: word_judge())

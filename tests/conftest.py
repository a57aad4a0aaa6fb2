"""What the tests of whole runs share: a store, events, a copy of each file's `run`."""

from __future__ import annotations

import shutil

import pytest

from engine.store.runs import Run, Store


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

"""A judge of words in place of a real one, for audits of the tiny world inside this process; one of
them, audited."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.models.judge import Judge
from engine.store.runs import Run, Store
from tests.tracks.language_models.worlds import word_judge, world_request


class Audited(NamedTuple):
    """The run of the usual request, and the folder with model, prompts and text."""

    run: Run
    folder: Path

    def copied(self, folder: Path) -> Store:
        """Its store with all finished parts, for those who add to it."""
        return Store(shutil.copytree(self.run.path.parents[1], folder))


@pytest.fixture(scope="session")
def audited(tmp_path_factory, quick_tests) -> Audited:
    """The usual request's audit, computed once for all files; nobody writes to it."""
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        judge_words(patch)
        from engine.tracks.language_models.run import run_audit

        return Audited(run_audit(world_request(folder), Store(folder / "store")), folder)


@pytest.fixture
def words_judged(monkeypatch) -> None:
    judge_words(monkeypatch)


@pytest.fixture(scope="module")
def words_judged_here():
    """For what a whole file shares."""
    with pytest.MonkeyPatch.context() as patch:
        judge_words(patch)
        yield


def judge_words(patch: pytest.MonkeyPatch, judge: Judge | None = None) -> None:
    """Audits find this judge by whatever name; usually the one of words."""
    judge = judge or word_judge()
    inspected = lambda name, sha256=None, label="": judge.info  # noqa: E731
    patch.setattr("engine.models.judge.inspect_judge", inspected)
    loaded = lambda *args, **kwargs: judge  # noqa: E731
    patch.setattr("engine.tracks.language_models.opening.load_judge", loaded)

"""Made-up finished runs of any track, for tests of what all tracks share: found by the track's name, nowhere listed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from engine.audit.tracks import tracks
from engine.report import tracks as screens
from engine.store.runs import Run, Store


def make(track: str, folder: Path, run_id: str, **options: Any) -> Run:
    """The made-up run of a track; the test is skipped where the track is not here."""
    if track not in tracks():
        pytest.skip(f"needs the track {track}")
    return _module(track).make_run(folder, run_id, **options)


def small(track: str, folder: Path, run_id: str) -> Run:
    """The made-up run with few rows: quick to write."""
    return make(track, folder, run_id, **_module(track).FEW)


def one_of_each(folder: Path) -> Store:
    """A store with a small run of every track, named after it."""
    for name in tracks():
        small(name, folder, f"{name}-run")
    return Store(folder)


def another(than: str, folder: Path, run_id: str) -> Run:
    """A small run of some other track; the test is skipped where there is none."""
    name = next((name for name in tracks() if name != than), "")
    return small(name, folder, run_id)


def akin(to: str, folder: Path, run_id: str) -> Run:
    """The usual run of another track that measures the same, on as many images; skipped where there is none."""
    measures = screens.tracks()[to].measures
    same = [name for name, screen in screens.tracks().items() if screen.measures == measures != "" and name != to]
    return make(next(iter(same), ""), folder, run_id)


def _module(track: str) -> Any:
    """Every track's tests hold a builder of made-up runs: `make_run(folder, run_id, **options)`, options FEW."""
    return importlib.import_module(f"tests.tracks.{track}.made_up_run")

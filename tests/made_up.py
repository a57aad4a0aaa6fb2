"""Made-up finished runs of any track, for tests of what all tracks share: found by the track's
name, nowhere listed."""

from __future__ import annotations

import atexit
import importlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pandas as pd
import pytest

from engine.audit.tracks import tracks
from engine.core.words import PREFIX
from engine.report import tracks as screens
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contents import default_choice
from engine.store.runs import Run, Store


def make(track: str, folder: Path, run_id: str, **options: Any) -> Run:
    """The made-up run of a track; the test is skipped where the track is not here."""
    if track not in tracks():
        pytest.skip(f"needs the track {track}")
    return _module(track).make_run(folder, run_id, **options)


def small(track: str, folder: Path, run_id: str, **options: Any) -> Run:
    """The made-up run with few rows: quick to write."""
    return make(track, folder, run_id, **{**_module(track).FEW, **options})


def for_papers(track: str, folder: Path, run_id: str) -> Run:
    """The made-up run with everything that some figure of a paper reads."""
    return make(track, folder, run_id, **getattr(_module(track), "PAPER", {}))


def one_of_each(folder: Path) -> Store:
    """A store with a small run of every track, named after it."""
    for name in tracks():
        shutil.copytree(kept(name).path, folder / "runs" / f"{name}-run")
    return Store(folder)


@cache
def kept(track: str) -> Run:
    """The small run, made once per process. Do not write into it."""
    folder = mkdtemp(prefix=f"made-up-{track}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return small(track, Path(folder), f"{track}-run")


def choices(run: Run) -> Iterator[Choice]:
    """Every method at every level on every axis of a run."""
    for axis in run.meta["request"]["axes"]:
        for method in lookup.methods(run, axis):
            for level in lookup.levels(run, method, axis):
                yield replace(default_choice(run, axis), method=method, level=level)


def another(than: str, folder: Path, run_id: str) -> Run:
    """A small run of some other track; the test is skipped where there is none."""
    name = next((name for name in tracks() if name != than), "")
    return small(name, folder, run_id)


def akin(to: str, folder: Path, run_id: str) -> Run:
    """The usual run of another track that measures the same, on as many images; skipped where there
    is none."""
    measures = screens.tracks()[to].comparison.measures
    same = [
        name
        for name, screen in screens.tracks().items()
        if screen.comparison.measures == measures != "" and name != to
    ]
    return make(next(iter(same), ""), folder, run_id)


def _module(track: str) -> Any:
    """Every track's tests hold a builder of made-up runs: `make_run(folder, run_id, **options)`,
    options FEW."""
    return importlib.import_module(f"tests.tracks.{track}.made_up_run")


STEERING = "\x1b[2J\x9b31m\u202egnirts\u2066\u200b\ufeff\x00"
"""Characters that steer a terminal, turn what follows, or cannot be seen."""
MARKUP = (
    "=1+1 <b>x</b> http://evil.example www.evil.example me@evil.example :smile:"
    " [a](http://evil.example) **b**"
)


def hostile(track: str, folder: Path, run_id: str) -> Run:
    """The small run with everything a user or a model names or writes made hostile: title, model,
    axes, groups, classes and texts all hold STEERING, and MARKUP where they are names."""
    run = kept(track)
    tables = {name: run.table(name) for name in run.meta["tables"]}
    words = {
        *run.meta["request"]["axes"],
        *tables["groups"]["group"],
        run.meta["model"]["name"],
        run.meta["title"],
    }
    names = {word: f"{MARKUP} {word}{STEERING}" for word in words - {"", "class"}}
    names |= {
        name: f"{PREFIX}{MARKUP} set{STEERING}" for name in _whole(tables["variants"])[-1:]
    }  # readers name sets
    meta = {key: value for key, value in run.meta.items() if key not in ("tables", "id", "schema")}
    changed = {name: _renamed(table, names) for name, table in tables.items()}
    return Store(folder).write(run_id, _renamed_in(meta, names), changed)


def _whole(variants: pd.DataFrame) -> list[str]:
    """Methods whose every row says what is cut, as those of sets by hand do."""
    rows = variants[variants["method"] != "dense"]
    return [
        str(name) for name, part in rows.groupby("method", sort=False) if (part["cut"] != "").all()
    ]


def _renamed_in(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {names.get(key, key): _renamed_in(item, names) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed_in(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


def _renamed(table: pd.DataFrame, names: dict[str, str]) -> pd.DataFrame:
    """The table with other names in its columns and cells, and texts that end in STEERING."""
    table = table.rename(columns=names)
    for column in table.select_dtypes(object):
        table[column] = [
            names.get(cell, cell) if isinstance(cell, str) else cell for cell in table[column]
        ]
        if column in ("text", "text_b"):
            table[column] = [f"{cell}{STEERING}" for cell in table[column]]
    return table

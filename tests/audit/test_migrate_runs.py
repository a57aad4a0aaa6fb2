"""Runs of earlier versions get the ids of this one only where they would come out the same, whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from assets.build import migrate_runs
from assets.build.migrate_runs import migrate
from engine.audit.fields import asked
from engine.audit.request import Plan, Request, run_id_of
from engine.core.errors import StoreError
from engine.store.additions import write_addition
from engine.store.runs import Run, Store
from tests.builders import seal

NEW = {"audit": 1, "measurement bed": 2, "score z_bias by generate": 1}
OLD = {"audit": 1, "measurement bed": 2}
"""Versions as they are, and as a run noted them that did not know of one yet."""
ASKED = {"place": "here", "axes": ["sun"], "beds": 2, "first_seed": 0, "device": "auto", "track": "garden"}


@dataclass(frozen=True)
class Garden(Request):
    """A made-up request; a plan writes its default `soil` out, which earlier ones did not."""

    place: str = asked(kind="source", counts="content")
    axes: tuple[str, ...] = asked(kind="names")
    beds: int = asked(2, kind="integer")
    soil: str = asked("", kind="text")

    track = "garden"


@dataclass(frozen=True)
class Bed(Plan):
    """What it rests on can be another than it was."""

    data: str

    @property
    def content(self) -> list[Any]:
        return [self.data]

    @property
    def versions(self) -> dict[str, int]:
        return NEW

    def spelled_out(self) -> dict[str, Any]:
        return {**self.request.to_dict(), "soil": self.request.soil or "loam"}


@pytest.fixture
def world(monkeypatch) -> dict[str, str]:
    """The only track there is, on data that a test may change."""
    here = {"data": "clay"}

    class Track:
        """Its request is checked by nothing."""

        def part(self, which: str) -> Any:
            return lambda request: Bed(request, here["data"])

    monkeypatch.setattr(migrate_runs, "request_from", lambda value: Garden.from_dict(value))
    monkeypatch.setattr(migrate_runs, "track_of_request", lambda request: Track())
    return here


def old_run(folder: Path, versions: Mapping[str, int] = OLD, data: str = "clay") -> tuple[Store, Run]:
    """A run as an earlier version wrote it, and its store."""
    said = {name: value for name, value in ASKED.items() if name != "place"}
    meta = {"title": "garden", "created": "2026", "model": {"name": "m"}, "track": "garden", "request": ASKED}
    store = Store(folder)
    found = run_id_of(said, [data], versions)
    table = pd.DataFrame({"value": [1.0, 2.0]})
    return store, store.write(found, meta | {"provenance": {"code": dict(versions)}}, {"results": table})


def tree(store: Store) -> dict[str, bytes]:
    return {str(path.relative_to(store.root)): path.read_bytes() for path in store.root.rglob("*") if path.is_file()}


def test_a_run_that_would_come_out_the_same_gets_its_new_id_and_keeps_its_tables(world, tmp_path):
    store, run = old_run(tmp_path)
    table, plan = (run.path / "results.parquet").read_bytes(), Bed(Garden("here", ("sun",)), "clay")
    assert migrate(store) == {run.id: plan.run_id} and store.ids() == [plan.run_id] != [run.id]
    moved = store.open(plan.run_id)
    assert (moved.path / "results.parquet").read_bytes() == table and moved.meta["id"] == moved.id
    assert moved.meta["request"]["soil"] == "loam" and moved.meta["provenance"]["code"] == NEW
    assert sorted(path.name for path in store.runs_folder.iterdir()) == [plan.run_id]
    assert migrate(store) == {plan.run_id: plan.run_id}


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ({**OLD, "audit": 0}, "other code computed it: audit"),
        ({**OLD, "measurement bed": 1}, "other code computed it: measurement bed"),
        ({**NEW, "score z_bias by generate": 0}, "other code computed it: score z_bias by generate"),
        ({"audit": 1}, "other code computed it: measurement bed"),
        ({**OLD, "method spade": 1}, "other code computed it: method spade"),
        ({}, "other code computed it: audit, measurement bed"),
    ],
)
def test_a_run_of_other_code_stays_as_it_is(world, tmp_path, versions, said):
    store, run = old_run(tmp_path, versions)
    before = tree(store)
    assert migrate(store) == {run.id: f"left alone: {said}"} and tree(store) == before


@pytest.mark.parametrize("place", ["store", "own"])
def test_a_run_to_which_something_was_added_stays_as_it_is(world, tmp_path, monkeypatch, place):
    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path / "own"))
    store, run = old_run(tmp_path / "store")
    meta = {"created": "2026", "asked": {}, "keys": {}, "numbered": {}}
    added = write_addition(tmp_path / place, run.id, "more", meta, {"results": pd.DataFrame({"value": [3.0]})})
    before = tree(store)
    assert "1 addition would be lost" in migrate(store)[run.id] and tree(store) == before
    shutil.rmtree(added)
    assert not migrate(store)[run.id].startswith("left alone")


def test_a_run_of_other_data_stays_as_it_is(world, tmp_path):
    store, run = old_run(tmp_path)
    world["data"], before = "sand", tree(store)
    assert "the data here are others" in migrate(store)[run.id] and tree(store) == before


def test_a_run_whose_request_was_changed_by_hand_stays_as_it_is(world, tmp_path):
    store, run = old_run(tmp_path)
    seal(run.path, {**run.meta, "request": {**run.meta["request"], "beds": 3}})
    before = tree(store)
    assert "its id was made in another way" in migrate(store)[run.id] and tree(store) == before


def test_a_run_with_a_damaged_table_stays_as_it_is(world, tmp_path):
    store, run = old_run(tmp_path)
    (run.path / "results.parquet").write_bytes(b"other")
    before = tree(store)
    assert migrate(store) == {run.id: "left alone: its tables are damaged"} and tree(store) == before


def test_a_move_that_was_cut_short_leaves_the_old_run_whole_and_is_finished_later(world, tmp_path, monkeypatch):
    """While the new folder is written, and between that and the end of the old one."""
    store, run = old_run(tmp_path)
    before = tree(store)
    with monkeypatch.context() as patch:
        patch.setattr(migrate_runs, "write_meta", _cut)
        assert migrate(store)[run.id].startswith("left alone") and tree(store) == before
    with monkeypatch.context() as patch:
        patch.setattr(migrate_runs.shutil, "rmtree", _cut)
        assert migrate(store)[run.id].startswith("left alone")
    assert before.items() <= tree(store).items() and len(store.ids()) == 2
    new = migrate(store)[run.id]
    assert store.ids() == [new] and not migrate_runs.damaged_tables(store.open(new))


def _cut(*_: Any, **__: Any) -> None:
    raise StoreError("cut short")


def test_what_lies_under_the_new_id_already_is_not_overwritten(world, tmp_path):
    store, run = old_run(tmp_path)
    new = Bed(Garden("here", ("sun",)), "clay").run_id
    store.write(new, run.meta, {"results": pd.DataFrame({"value": [3.0]})})
    before = tree(store)
    assert migrate(store)[run.id] == f"left alone: another run is under {new} already" and tree(store) == before
    shutil.rmtree(store.runs_folder / new)
    assert migrate(store)[run.id] == new

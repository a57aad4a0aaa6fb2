"""A change of code that changes numbers is never answered by an old run; embedded runs lie under their present ids."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.audit.request import Plan, versions_of
from engine.audit.tracks import request_from, track_of_meta, tracks
from engine.store.runs import EMBEDDED, Run, Store

RUNS = sorted((EMBEDDED / "runs").iterdir())


def meta_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def plan_of(folder: Path) -> Plan:
    """The plan of what an embedded run was asked."""
    meta = meta_of(folder)
    return track_of_meta(meta).part("validate")(request_from(meta["request"] | {"track": meta["track"]}))


@pytest.fixture(scope="module", params=tracks())
def plan(request) -> Plan:
    """Of the first embedded audit of every track."""
    return plan_of(next(run for run in RUNS if track_of_meta(meta_of(run)).name == request.param))


def test_every_track_ships_an_audit():
    assert {track_of_meta(meta_of(run)).name for run in RUNS} == set(tracks())


@pytest.mark.contract
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_embedded_runs_are_found_under_their_present_ids(run):
    assert plan_of(run).run_id == run.name
    assert Store(EMBEDDED, read_only=True).has(run.name) and Run(run).meta["id"] == run.name


def test_raising_the_version_of_anything_that_computes_a_run_makes_it_stale(plan, monkeypatch):
    """Of the audit itself, of every measurement, and of every method that the request names: raised where the code says
    it, the version leads to a new id, and no two lead to the same."""
    parts, module = parts_of(plan, monkeypatch), sys.modules[type(plan).__module__]
    assert {kind for kind, _ in parts} > {"measurement"}, "methods have versions too"
    assert set(plan.versions) == {"audit", *(f"{kind} {name}" for kind, name in parts)}
    ids = [plan.run_id]
    for part in parts.values():
        ids.append(with_raised(part, plan, monkeypatch))
    with monkeypatch.context() as patch:
        patch.setattr(module, "CODE", module.CODE + 1)
        ids.append(plan.run_id)
    assert len(set(ids)) == len(parts) + 2 and plan.run_id == ids[0]


def test_a_method_that_is_not_asked_for_touches_no_run(plan, monkeypatch):
    """As if it did not exist: its version is not in the id."""
    named = {f"{kind} {name}" for kind, name in parts_of(plan, monkeypatch)}
    asked = list(plan.request.methods)
    fewer = replace(plan, request=replace(plan.request, methods=tuple(asked[:1])))
    assert set(fewer.versions) <= named | {"audit"} and fewer.run_id != plan.run_id
    assert len(asked) == 1 or set(fewer.versions) < set(plan.versions)


def parts_of(plan: Plan, monkeypatch) -> dict[tuple[str, str], Any]:
    """Everything whose version is in the plan's id, by kind and name."""
    found: dict[tuple[str, str], Any] = {}

    def noted(audit: int, **parts: Mapping[str, Any]) -> dict[str, int]:
        found.update({(kind, name): part for kind, named in parts.items() for name, part in named.items()})
        return versions_of(audit, **parts)

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[type(plan).__module__], "versions_of", noted)
        assert plan.versions
    return found


def with_raised(part: Any, plan: Plan, monkeypatch) -> str:
    """The plan's id while the version of a part is one higher: of its class, or its own where it is a row."""
    with monkeypatch.context() as patch:
        if "version" in vars(part):
            patch.setitem(vars(part), "version", part.version + 1)
        else:
            patch.setattr(type(part), "version", part.version + 1)
        return plan.run_id

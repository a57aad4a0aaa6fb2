"""Stores that released versions wrote, one per form of the store, kept beside this file as they were written: a version
that changes the form adds one, and goes on reading these.

schema-1: no seals (run and addition of schema 1, shards as parquet, jobs without a schema). schema-2: sealed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from engine.audit.jobs import job_request, job_state, list_jobs
from engine.cli import main
from engine.store.runs import SCHEMA, Store

KEPT = Path(__file__).parent / "kept"
VERSIONS = sorted(path.name for path in KEPT.iterdir())


@pytest.fixture(params=VERSIONS)
def store(request, tmp_path) -> Store:
    shutil.copytree(KEPT / request.param, tmp_path / "store")
    return Store(tmp_path / "store")


def test_every_form_of_the_store_is_kept():
    assert [f"schema-{number}" for number in range(1, SCHEMA + 1)] == VERSIONS
    found = {json.loads((KEPT / name / "runs/kept-run/run.json").read_text())["schema"] for name in VERSIONS}
    assert found == set(range(1, SCHEMA + 1))


def test_runs_and_what_was_added_to_them(store, capsys):
    assert main(["runs", "list", "--store", str(store.root)]) == 0
    assert "kept-run" in capsys.readouterr().out and store.damaged() == {}
    run = store.open("kept-run")
    assert run.meta["model"]["name"] == "kept-model" and run.damaged_additions == {}
    assert run.table("results").set_index("metric")["value"].to_dict() == {
        "perplexity": 12.5, "toxicity": 0.25, "bias": 0.75,
    }  # fmt: skip


def test_finished_parts_are_found_and_kept_with_a_hash(store):
    assert store.shards.get("ab" * 32)["x"].tolist() == [1.5, 2.25]
    assert Store(store.root).shards.hash_of("ab" * 32)


def test_jobs(store):
    (job,) = list_jobs(store)
    assert (job.title, job.status, job.done, job.total, job.message) == ("Kept job", "cancelled", 3, 9, "Stopped.")
    assert job_state(store, job.job_id) == job
    assert job_request(store, job.job_id).axes == ("nationality",)


def test_fields_that_a_later_version_adds_are_left_alone(tmp_path):
    """In documents without a seal; a seal covers the fields of later versions of one schema too."""
    shutil.copytree(KEPT / "schema-1", tmp_path / "store")
    store = Store(tmp_path / "store")
    for name in ("runs/kept-run/run.json", "additions/kept-run/kept-addition/addition.json"):
        path = store.root / name
        path.write_text(json.dumps({**json.loads(path.read_text()), "from_later": {"a": [1]}}))
    assert len(store.open("kept-run").table("results")) == 3

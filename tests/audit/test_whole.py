"""Whole audits of every track: stopped and resumed they are the same, asked again they are found,
damage is noticed. A set of units chosen by hand joins one: tried before test, verified, read again,
a job like any other."""

import json
import shutil
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engine.audit.jobs import check, job_id_of, job_request, job_state, run_job
from engine.audit.request import Growth
from engine.audit.tracks import track_of_request, track_of_run, tracks
from engine.audit.verification import verify_run
from engine.cli import main
from engine.core.errors import Cancelled, RequestError
from engine.core.types import Hooks
from engine.report.bundle import write_masks
from engine.report.charts import lookup
from engine.report.charts.panel import Choice
from engine.report.contents import panels
from engine.report.hand_sets import tried
from engine.report.summary import summary_of, summary_text
from engine.report.tracks import track_of
from engine.store.runs import Run, Store, find_run, where
from tests.audit.run_checks import smallest_request
from tests.classifiers.whole_runs import same_tables
from tests.classifiers.worlds import stop_after

UNITS, NAME = (0, 1, 5), "by-hand-mine"
STOP_AT = 2
"""At which question, whether to go on, of a phase an audit is stopped; the first is 0."""
QUICK = list(tracks())[-2:]
"""Of these, stopping is always tried; of the others, which take three times as long, on demand."""
STOPPED = [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in tracks()]
GROWING = [name for name, one in tracks().items() if one.grow]


class Whole(NamedTuple):
    """A finished audit, what was asked, and the phases that may be stopped."""

    request: Any
    run: Run
    phases: tuple[str, ...]


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """The smallest audit of a track, computed once."""

    @cache
    def computed(track):
        folder, asked = tmp_path_factory.mktemp("world"), Counter()
        request, store = smallest_request(track, folder), Store(folder / "store")
        now = [""]
        hooks = Hooks(
            check=lambda: asked.update(now),
            report=lambda event: now.__setitem__(0, event.phase),
        )
        track_of_request(request).part("run")(request, store, hooks)
        phases = tuple(phase for phase, times in asked.items() if phase and times > STOP_AT)
        return Whole(request, run_job(store, request), phases)

    return computed


@pytest.fixture(params=tracks())
def whole(request, audited):
    return audited(request.param)


@pytest.fixture(params=GROWING)
def run(request, audited):
    return audited(request.param).run


@pytest.fixture
def store(run, copy, tmp_path):
    """A store with the run and none of its measurements."""
    return Store(tmp_path)


@pytest.mark.parametrize("whole", STOPPED, indirect=True)
def test_stopped_in_every_phase_and_resumed_equals_uninterrupted(whole, tmp_path, monkeypatch):
    """Nothing of a run is there before it is whole, and nothing unfinished after."""
    for module in [one for name, one in sys.modules.items() if name.startswith("engine.")]:
        if hasattr(module, "SAVE_EVERY"):
            monkeypatch.setattr(module, "SAVE_EVERY", -1.0)
    compute = track_of_request(whole.request).part("run")
    store = Store(tmp_path)
    for phase in whole.phases:
        events = []
        stop = stop_after(STOP_AT)
        hooks = Hooks(
            check=lambda: stop() if events and events[-1].phase == phase else None,  # noqa: B023
            report=events.append,
        )
        with pytest.raises(Cancelled):
            compute(whole.request, store, hooks)
        assert store.ids() == [] and events[-1].phase == phase
    assert len(whole.phases) > 1 and list((tmp_path / "shards").rglob("*.shard"))
    again = compute(whole.request, store)
    assert again.id == whole.run.id
    assert not [*(tmp_path / "partial").glob("*"), *(tmp_path / "begun").glob("*")]
    same_tables(whole.run, again)


def test_the_same_request_is_found_and_not_computed(whole, tmp_path):
    shutil.copytree(whole.run.path, tmp_path / "runs" / whole.run.id)
    found = run_job(Store(tmp_path), replace(whole.request, title="again"))
    assert found.path == tmp_path / "runs" / whole.run.id and not (tmp_path / "shards").exists()


def test_the_command_line_finds_lists_shows_verifies_and_exports_it(whole, tmp_path, capsys):
    """By the words of its job too, but not by others."""
    store = Store(whole.run.path.parents[1])
    where_ = ["--store", str(store.root), "--json"]

    def told(*words, code=0):
        assert main([*words, *where_]) == code
        return json.loads(capsys.readouterr().out)

    word = track_of_request(whole.request).word
    job = ["--resume", job_id_of(whole.request)]
    shown = told(word, *job)
    assert shown["run"] == whole.run.id
    variants = whole.run.table("variants").query("chosen")["variant"]
    assert {row["variant"] for row in shown["results"]} == set(variants)
    assert told("runs", "show", whole.run.id)["results"] == shown["results"]
    assert [run["id"] for run in told("runs", "list")] == [whole.run.id]
    assert told("runs", "verify", whole.run.id)["ok"]
    taken = told("export", whole.run.id, "--to", str(tmp_path / "to"), "--what", "masks,tables")
    assert len(taken["files"]) > 2 and all(Path(path).exists() for path in taken["files"])
    [fault] = told(word, *job, "--seed", "5", code=2)["faults"]
    assert fault["where"] == "first_seed" and "was begun with 0, not 5" in fault["what"]


def test_a_damaged_table_is_named_and_nothing_is_exported(whole, tmp_path):
    copy = Run(shutil.copytree(whole.run.path, tmp_path / "runs" / whole.run.id))
    path = copy.path / "groups.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    wrong = [check["what"] for check in verify_run(copy)["checks"] if not check["ok"]]
    assert wrong == ["table groups has the bytes that were written"]
    words = ["export", copy.id, "--store", str(tmp_path), "--to", str(tmp_path / "to")]
    assert main(words) == 2 and not (tmp_path / "to").exists()


def growth(run, **asked):
    same = {"track": run.meta["track"], "run": run.id, "axis": run.meta["request"]["axes"][0]}
    return Growth(**{**same, "units": UNITS, "name": "mine", **asked})


def grown(run, store, **asked):
    return track_of_run(run).part("grow")(growth(run, **asked), store)


def test_a_set_is_tried_before_test_kept_and_its_mask_is_that_set(run, store, capsys):
    one = grown(run, store)
    assert tried(one) == 1 and NAME not in set(lookup.reported(one)["variant"])
    mine = where(one.table("results"), variant=NAME)
    assert len(mine) and "test" not in set(mine["split"])
    two = grown(run, store, split="test")
    assert tried(two) == 1 and NAME in set(lookup.reported(two)["variant"])
    assert set(where(two.table("results"), variant=NAME)["split"]) == {"test", *mine["split"]}
    assert all(verify_run(found)["ok"] for found in (one, two))
    assert grown(run, store, split="test").additions == two.additions, "found, not measured again"
    with pytest.raises(RequestError, match="another set of"):
        grown(run, store, units=(2,))
    row = two.table("variants").set_index("variant").loc[NAME]
    assert row["n_cut"] == len(UNITS) and row["chosen"]
    for axis in run.meta["request"]["axes"]:
        level = row[track_of(run).level.column]
        variant = lookup.variant_of(two, Choice(NAME, axis, level))["variant"]
        for panel in panels(two, axis, variant).values():
            assert panel.question and panel.answer
    assert NAME in summary_text(two) and len(summary_of(two)["added"]) == 2
    masks = write_masks(two, store.root / "masks")
    mask = next(path for path in masks if path.name.startswith(NAME))
    words = ["--store", str(store.root), "--json"]
    again = [*words, "--name", "mine", "--split", "test"]
    assert main(["measure", run.id, "--mask", str(mask), *again]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["tried"] == 1 and len(said["rows"]) > 1
    assert find_run(run.id, [store]).additions == two.additions, "the same units by the same name"
    mask.write_text(json.dumps(json.loads(mask.read_text()) | {"weight_hash": "0" * 64}))
    assert main(["measure", run.id, "--mask", str(mask), *words]) == 2


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"units": (10**6,)}, "are not"),
        ({"units": (1, 1)}, "once each"),
        ({"level": 0.2}, "one of the two"),
        ({"axis": "age"}, "'age' is not known"),
        ({"split": "spare 1"}, "Known: "),
        ({"name": "x" * 61}, "too long"),
        ({"name": "x\x1b[2J"}, "cannot show"),
        ({"name": "<b>x"}, "cannot show"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_loads(run, store, asked, words):
    with pytest.raises(RequestError, match=words):
        check(growth(run, **asked), store)
    assert not (store.root / "additions").exists() and not (store.root / "shards").exists()


def test_a_run_that_is_elsewhere_or_of_another_kind_is_refused(run, store):
    for other in GROWING:
        if other != run.meta["track"]:
            with pytest.raises(RequestError, match="is of "):
                check(growth(run, track=other), store)
    with pytest.raises(RequestError, match="is in no store"):
        check(replace(growth(run), run="0" * 16), store)


def test_it_is_a_job_that_goes_on_where_it_was_stopped(run, store):
    asked = growth(run, split="test")
    with pytest.raises(Cancelled):
        track_of_run(run).part("grow")(asked, store, Hooks(check=stop_after(3)))
    assert find_run(run.id, [store]).added == []
    found = run_job(store, asked)
    state = job_state(store, job_id_of(asked))
    assert (state.status, state.run_id) == ("done", run.id) and len(found.added) == 1
    assert job_request(store, state.job_id) == asked and state.title
    assert job_id_of(replace(asked, title="other words")) == state.job_id
    assert job_id_of(growth(run, units=(1,))) != state.job_id

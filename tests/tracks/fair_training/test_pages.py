"""Every page with a run of fair training: alone and through app.py, with hostile names, and while a
job runs."""

import fcntl
import json
from dataclasses import replace

import pytest

from engine.audit import jobs
from engine.store.runs import Store
from engine.tracks.fair_training.methods import LOOKS, PHASE_POINT
from engine.tracks.fair_training.request import FairRequest
from tests.pages.checks import (
    assert_calm,
    charts_of,
    html_of,
    opened,
    use_store,
    words_of,
)
from tests.tracks.fair_training.made_up_run import make_run

FAIR_RUN = "fair-run"
SHARD = "bifp-str, 48.8 % cut, λ 1, seed 0"


@pytest.fixture(scope="module")
def fair_store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fair")
    make_run(folder, FAIR_RUN)
    return folder


@pytest.fixture
def fair(fair_store, monkeypatch):
    return use_store(fair_store, monkeypatch)


@pytest.mark.parametrize(
    ("tab", "charts"), [("Result", 6), ("Against others", 7), ("Effort", 5), ("Layers", 2)]
)
def test_every_chart_of_the_page_is_there(fair, tab, charts):
    at = opened("training", run=FAIR_RUN, tab=tab)
    assert_calm(at)
    assert len(charts_of(at)) == charts


def test_what_is_counted_and_which_methods_are_shown_are_choices(fair):
    at = opened("training", run=FAIR_RUN, tab="effort")
    first = html_of(at)
    at.segmented_control(key="counted_in").set_value("seconds").run()
    assert_calm(at)
    assert html_of(at) != first
    at = opened("training", run=FAIR_RUN)
    at.segmented_control(key="methods").set_value("bifp").run()
    assert_calm(at)
    assert "BiFP-str without m" in str(charts_of(at))


def test_weights_and_models_without_a_cut(fair):
    at = opened("training", run=FAIR_RUN, method="BiFP-uns", cut="83.2 %", tab="Effort")
    assert_calm(at)
    assert "nothing gets faster" in html_of(at)
    at.selectbox(key="method").set_value("dense-tuned").run()
    assert_calm(at)
    assert (
        "This method cuts nothing" in words_of(at) and [item.key for item in at.select_slider] == []
    )


@pytest.fixture
def running(tmp_path, monkeypatch):
    """A job of fair training that runs: its lock is held here, and it said two things."""
    store = Store(use_store(tmp_path, monkeypatch))
    request = FairRequest("demo-resnet", "avatars", ("male",))
    job_id = jobs.job_id_of(request)
    folder, now = jobs._prepare(store, job_id, request), jobs._now()
    state = jobs.JobState(job_id, "<b>my</b> training", "running", started=now, updated=now)
    jobs._write(folder, replace(state, phase="trained", what="bifp", done=3, total=30))
    told = {"shard": SHARD, "phase": "both", **dict.fromkeys((*PHASE_POINT[2:], *LOOKS), 0.1)}
    points = folder / "points.jsonl"
    points.write_text("".join(f"{json.dumps({**told, 'step': step})}\n" for step in (40, 80)))
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield store, job_id


def test_a_running_training_is_watched_and_cancelled(running):
    store, job_id = running
    at = opened("training", run=None)
    assert_calm(at)
    shown = words_of(at).replace("\\", "").replace("\u00a0", " ")
    assert (
        "How is the training going?" in shown
        and "BiFP-str, 48.8 % cut, λ 1, seed 0: mask and weights, 80" in shown
    )
    assert len(charts_of(at)) == 3 and "there is none" in shown
    button = next(item for item in at.button if item.label == "Cancel")
    button.click().run()
    assert_calm(at)
    assert (store.jobs_folder / job_id / "cancel").exists()

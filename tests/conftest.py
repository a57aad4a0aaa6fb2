"""What the tests of whole runs share: a store, events, a copy of each file's `run`."""

import gc
import os
import random
import shutil
from functools import cache

import numpy as np
import pytest
import torch

from engine.audit.tracks import tracks
from engine.resident.asks import answer_here
from engine.resident.warm import Warm
from engine.store.runs import Run, Store
from tests import made_up
from tests.builders import SHARED
from tests.ray_cluster import ray_cluster

os.environ["PRUNEAUDIT_ENGINE"] = (
    "off"  # the test's own process answers, and no engine stays behind
)


BROWSER = "tests/browser/"
LONGEST = (
    "browser/test_main_path.py",  # first of all, while the app is fresh
    BROWSER,
    "golden/",
    "pages/test_opened.py",
    "fair_training/test_run.py",
    "text_classifiers/test_run.py",
    "report/test_hostile.py",
    "language_models/test_a",
    "report/test_whole_truth.py",
    "report/test_panels.py",
    "fair_training/test_methods.py",
    "image_classifiers/",
    "fair_training/test_trainer.py",
    "language_models/",
)
"""What takes longest begins first, so that no process is left with it alone at the end."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file at a time, but all files with a browser to one process: they share an app and a
    Chromium, and wait where others compute."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return "browser" if nodeid.startswith(BROWSER) else super()._split_scope(nodeid)

    return Together(config, log)


def pytest_collection_modifyitems(items):
    def place(item):
        path = item.path.as_posix()
        return next((at for at, one in enumerate(LONGEST) if one in path), len(LONGEST))

    items.sort(key=place)


def pytest_collection_finish():
    """What was imported and collected stays to the end: no use in looking through it for garbage
    again and again, a fifth of the time of charts."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _same_draws():
    """Chance starts at one place: a model a test makes up does not depend on which tests its
    process ran before."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope="module", autouse=True)
def same_draws_for_a_file():
    _same_draws()


@pytest.fixture(autouse=True)
def same_draws():
    _same_draws()


@pytest.fixture(scope="session", autouse=True)
def components_found_once():
    """Streamlit reads every installed package's description for components whenever a test opens a
    page, .2 s each
    time: here once."""
    from streamlit.components.v2 import manifest_scanner

    found = cache(manifest_scanner.scan_component_manifests)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", found)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_tests(tmp_path_factory):
    """What one process makes up the others read. What a cut of a tiny model saves is no finding: it
    is timed a few times only. That what is written would outlast a power cut no test can see:
    nobody waits for the disk."""
    own = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SHARED, str(own.parent if own.name.startswith("popen-") else own))
        patch.setattr("engine.audit.measurements.PATIENCE", 0.0)
        patch.setattr("engine.audit.measurements.LEAST", 2)
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture
def no_charts(monkeypatch):
    """Reports without charts, for tests of what else stands in them: charts take most of the
    time."""
    monkeypatch.setattr("engine.report.report.chart_html", lambda *_: "")


@pytest.fixture(scope="module")
def drawn_once():
    """Panels of a run and a choice are drawn once for all of a file: lists, summaries, reports. A
    report's dark charts are its light ones, whose words no theme changes."""
    from engine.report import contents, measured, report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "_dark", lambda choice: choice)
        for name in ("axis_panels", "shared_panels"):
            once = _listed_once(getattr(contents, name))
            for module in (contents, measured, report):
                patch.setattr(module, name, once)
        yield


def _listed_once(make):
    return cache(lambda run, choice: list(make(run, choice)))


@pytest.fixture(scope="module")
def events():
    return []


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def hostile_store(tmp_path_factory):
    """A run of every track with everything that somebody names or writes made hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    for name in tracks():
        made_up.hostile(name, folder, f"{name}-run")
    return Store(folder)


@pytest.fixture(scope="module")
def one_of_each(tmp_path_factory):
    """A store with a run of every track."""
    return made_up.one_of_each(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def warm():
    return Warm()


@pytest.fixture
def ask(request, run, store, warm):
    """The answer to a file's question ASKED, (its name, what is usually given), about its run."""
    name, usual = request.module.ASKED
    return lambda **given: answer_here(name, {"run": run.id, **usual, **given}, store, warm=warm)


@pytest.fixture
def visit(run, store, monkeypatch):
    """Opens a page, which is calm, on a file's run."""
    from tests.pages.checks import assert_calm, opened, use_store

    use_store(store.root, monkeypatch)

    def opened_calm(page, **parameters):
        at = opened(page, run.id, **parameters)
        assert_calm(at)
        return at

    return opened_calm


@pytest.fixture
def copy(run, tmp_path):
    """The run in a folder of its own, to be damaged."""
    shutil.copytree(run.path, tmp_path / "runs" / run.id)
    return Run(tmp_path / "runs" / run.id)


@pytest.fixture(scope="module")
def cluster():
    """A Ray cluster of two nodes; skips where Ray is not installed."""
    pytest.importorskip("ray", reason="needs ray: pip install -r requirements-ray.txt")
    with ray_cluster(nodes=2) as nodes:
        yield nodes

"""A track can be deleted: its folder, its tests, its pages, its benchmarks, its embedded audits,
and nothing else."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from engine.audit.tracks import track_of_meta, tracks
from engine.report.tracks import tracks as screens
from tests.imports import imported
from tests.places import ROOT

CODE = ("engine", "pages", "assets/build", "benchmarks", "tests", "docs")
QUICK = list(tracks())[-1]
"""Without this track the contracts are always run; without the others, which takes as long each, on
demand."""
EACH = [pytest.param(track, marks=() if track == QUICK else pytest.mark.slow) for track in tracks()]


@pytest.fixture(scope="module", params=tracks(), ids=str)
def without(request, tmp_path_factory):
    """The name of a track, and a copy of the project in which it never was."""
    folder = tmp_path_factory.mktemp("copy") / "project"
    unlike = shutil.ignore_patterns(
        ".git", ".venv", "__pycache__", "demo-bert", "demo-gpt2", "demo-judge", "demo-resnet"
    )
    shutil.copytree(ROOT, folder, ignore=unlike, symlinks=True)
    for model in (ROOT / "assets").glob("demo-*"):
        if not (folder / "assets" / model.name).exists():
            (folder / "assets" / model.name).symlink_to(model)  # weights are only read
    delete(request.param, folder)
    return request.param, folder


def delete(track, folder):
    """Take a track out of a copy of the project."""
    drawn = [f"{page}.py" for page in own_pages(track)]
    drawn += [f"tabs/{tab}.py" for tab in own_tabs(track)]
    for screen in drawn:
        (folder / "pages" / screen).unlink()
    for code in ("engine", "tests"):
        shutil.rmtree(folder / code / "tracks" / track)
    for path in [path for name in ("benchmarks", "docs") for path in (folder / name).rglob("*.py")]:
        if any(name.startswith(f"engine.tracks.{track}") for name in imported(path, ())):
            path.unlink()
    for run in (folder / "assets" / "demo-run" / "runs").iterdir():
        if track_of_meta(json.loads((run / "run.json").read_text(encoding="utf-8"))).name == track:
            shutil.rmtree(run)


def own_pages(track):
    """Pages that no other track names."""
    others = {
        page for name, screen in screens().items() if name != track for page in screen.screens.pages
    }
    return set(screens()[track].screens.pages) - others


def own_tabs(track):
    """Files of tabs that no other track names."""
    named = {
        name: {tab.partition(".")[0] for tabs in screen.screens.tabs.values() for tab in tabs}
        for name, screen in screens().items()
    }
    return named[track] - {tab for name, tabs in named.items() if name != track for tab in tabs}


def module_of(path, folder):
    return ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")


def test_nothing_imports_what_is_gone(without):
    _, folder = without
    files = [path for name in CODE for path in sorted((folder / name).rglob("*.py"))]
    here = {module_of(path, folder) for path in files} | {"app"}
    there = {module_of(path, ROOT) for name in CODE for path in (ROOT / name).rglob("*.py")}
    wrong = [
        f"{path.relative_to(folder)} imports {name}"
        for path in [folder / "app.py", *files]
        for name in imported(path, there)
        if name in there - here
    ]
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("without", EACH, indirect=True)
def test_the_app_starts_and_the_other_tracks_keep_their_contracts(without, tmp_path):
    """All tests that are left are read, and the quick ones about contracts run: the app opens on an
    embedded audit, the command line lists the runs, and every part that a track names is there."""
    track, folder = without
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "contract",
        "-p",
        "no:xdist",
        "-rfE",
        "--no-header",
        "tests",
    ]
    environment = {**os.environ, "PRUNEAUDIT_STORE": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stdout[-3000:]
    assert " passed" in ended.stdout and track not in ended.stdout

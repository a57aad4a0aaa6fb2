"""The command line, whatever the track: every command is found, finished runs are listed, errors
are said in form."""

import pkgutil

import pytest

import engine.cli
from engine.audit.tracks import tracks
from engine.cli import parser
from tests.builders import call
from tests.places import ROOT


@pytest.mark.contract
def test_the_embedded_runs_are_listed(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path))
    code, listed = call(capsys, "runs", "list", "--json")
    assert code == 0 and {run["id"] for run in listed} == {
        p.name for p in (ROOT / "assets/demo-run/runs").iterdir()
    }


def test_every_command_says_what_it_is_for():
    """Every file of commands, the kernel's and the tracks', is a command with a line of its own in
    the help."""
    words = [word for track in tracks().values() for word in (*track.commands(), track.word)]
    expected = {info.name for info in pkgutil.iter_modules(engine.cli.__path__)} | set(words)
    lines = [
        line.split() for line in parser().format_help().splitlines() if line.startswith("    ")
    ]
    said = {line[0]: line[1:] for line in lines if line}
    assert {name.replace("_", "-") for name in expected} <= said.keys()
    assert all(said[name.replace("_", "-")] for name in expected)


def test_an_error_of_the_program_is_said_in_the_form_that_was_asked_for(capsys, monkeypatch):
    monkeypatch.setattr("engine.store.runs.Store.list", lambda self: 1 / 0)
    code, out = call(capsys, "runs", "list", "--json")
    assert code == 1 and "ZeroDivisionError" in out["error"]

"""What killed writers left is swept; what somebody writes is not. Pipes are refused before they are
opened."""

import os
import shlex
import subprocess
import sys

import pytest

from engine.cli import main
from engine.core.errors import RequestError
from engine.core.files import folder_whole, is_special, sweep, write_whole
from tests.places import ROOT

KILLED = """
import os, pathlib, sys
from engine.core.files import folder_whole, write_whole
folder = pathlib.Path(sys.argv[1])
with folder_whole(folder / "run"):
    write_whole(folder / "deep" / "file", lambda path: os._exit(9))
"""


def test_what_a_killed_writer_left_is_swept(tmp_path):
    assert (
        subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, check=False
        ).returncode
        == 9
    )
    left = sorted(path for path in tmp_path.rglob("*") if path.name != "deep")
    assert len(left) == 2 and sweep(tmp_path) == [], (
        "a moment old: its writer may not have locked it yet"
    )
    assert sorted(sweep(tmp_path, older=-1)) == left and list(tmp_path.iterdir()) == [
        tmp_path / "deep"
    ]


def test_what_is_being_written_stays(tmp_path):
    def write(path):
        assert sweep(tmp_path, older=-1) == []
        path.write_text("whole")

    write_whole(tmp_path / "file", write)
    with folder_whole(tmp_path / "run") as folder:
        (folder / "part").write_text("x")
        assert sweep(tmp_path, older=-1) == []
    assert (tmp_path / "file").read_text() == "whole" and (tmp_path / "run" / "part").exists()
    assert sweep(tmp_path, older=-1) == []


@pytest.mark.parametrize(
    "words", [["apply", "PIPE", "--model", "m", "--to", "x"], ["audit", "--prompts", "PIPE"]]
)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, words, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert is_special(tmp_path / "pipe") and not is_special(tmp_path) and not is_special("a\0b")
    assert main([str(tmp_path / "pipe") if word == "PIPE" else word for word in words]) == 2
    assert "neither a file nor a folder" in capsys.readouterr().err


def test_a_notebook_that_names_a_pipe_or_no_possible_path_is_refused(tmp_path):

    from engine.audit.fields import checked, fields_of
    from engine.audit.tracks import tracks

    os.mkfifo(tmp_path / "pipe")
    for track in tracks().values():
        request = track.part("embedded")[0]
        field = next(one for one in fields_of(type(request)) if one.kind in ("path", "source"))
        for named, said in (
            (str(tmp_path / "pipe"), "neither a file nor a folder"),
            ("x" * 300, "300 letters"),
        ):
            try:
                faults = checked(type(request).from_dict({**request.to_dict(), field.name: named}))[
                    1
                ]
            except RequestError as error:
                faults = list(error.faults)
            assert any(said in fault.what for fault in faults), track.name


@pytest.mark.parametrize(
    "options", ["--sto x", "--store a --store=b", "--json --json", "--store=", "--store ''"]
)
def test_options_are_not_guessed(options, capsys):
    assert main(["runs", "list", *shlex.split(options)]) == 2
    told = capsys.readouterr().err
    assert any(
        why in told for why in ("unrecognized arguments", "given more than once", "given nothing")
    )


def test_a_name_writes_no_line_of_its_own(capsys):
    assert main(["runs", "show", "--store", "none\n  - run: all is well.\r\nverified", "x"]) == 2
    assert main(["apply", "none\nverified.json", "--model", "demo-gpt2", "--to", "x"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert (
        not [line for line in told if line.startswith(("verified", "  - run: all"))]
        and len(told) == 4
    )


def test_a_home_that_nobody_has_is_a_wrong_path(monkeypatch, capsys):
    assert main(["runs", "list", "--store", "~nobody-of-that-name/store"]) == 2
    monkeypatch.setenv("PRUNEAUDIT_STORE", "~nobody-of-that-name/store")
    assert main(["runs", "list"]) == 2
    assert "a name that nobody has here" in capsys.readouterr().err

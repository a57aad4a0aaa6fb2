"""Commands that are wrong: exit code 2, every fault told in words, nothing written.

`wrong_words.csv` is the table: the track that is needed, the words, where the faults are (exactly
these after "=", else these among others), and what is said. {out} is a folder that stays empty but
for a file called `file`, {lm} and {task} hold a tiny language model and a tiny task, {circle} is a
link to itself.
"""

import csv
import importlib
import json
import shlex
from pathlib import Path

import pytest

from engine.audit.tracks import tracks
from engine.cli import main
from tests import made_up

TABLE = Path(__file__).with_name("wrong_words.csv")
ROWS = list(csv.DictReader(TABLE.open(newline="", encoding="utf-8")))


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """What the table calls by name: models, a task, a store with a run."""
    folder = tmp_path_factory.mktemp("sound")
    (folder / "circle").symlink_to(folder / "circle")
    for name, track, write in (
        ("lm", "language_models", "write_sound"),
        ("task", "text_classifiers", "text_world"),
    ):
        (folder / name).mkdir()
        if track in tracks():
            getattr(importlib.import_module(f"tests.tracks.{track}.worlds"), write)(folder / name)
    if "language_models" in tracks():
        made_up.small("language_models", folder / "store", "language_models-run")
    return folder


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["words"][:70])
def test_it_is_refused_with_its_faults_and_nothing_is_written(
    row, sound, tmp_path, monkeypatch, capsys
):
    if row["track"] and row["track"] not in tracks():
        pytest.skip(f"needs the track {row['track']}")
    monkeypatch.setattr("engine.audit.jobs.run_job", None)  # what slips through shall not run
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("in the way")
    here = ("lm", "task", "store", "circle")
    places = {"out": tmp_path, **{name: sound / name for name in here}}
    asked = [word.format(**places) for word in shlex.split(row["words"])]
    assert main([*asked, "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    said = json.dumps(told, ensure_ascii=False)
    assert [one for one in row["said"].split("|") if one not in said] == [], told
    exact, wanted = row["where"].startswith("="), set(row["where"].strip("=").split("|")) - {""}
    found = {fault["where"] for fault in told["faults"]}
    assert found == wanted if exact else wanted <= found, told
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

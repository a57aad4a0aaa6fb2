"""The whole way from the command line: the embedded audit's cut model arrives, and what arrives loads."""

from __future__ import annotations

import json

from engine.cli import main
from engine.surgery.heads.replay import load_cut
from tests.a_hub import TOKEN, a_hub


def test_a_cut_model_is_sent_from_the_command_line_and_loads(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PRUNEAUDIT_STORE", str(tmp_path / "store"))
    with a_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        assert main(["export", "4ae3dec83b413e62", "--push", "reader/small", "--yes", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["pushed"] == f"{hub.address}/reader/small"
    for path, content in hub.repositories["reader/small"].items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    assert load_cut(tmp_path / "cut").n_parameters < 502272


def test_without_anybody_to_ask_nothing_is_sent(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115  (closed with the test's process)
    assert main(["export", "4ae3dec83b413e62", "--push", "reader/small"]) == 2
    assert "--yes" in capsys.readouterr().err


def test_options_of_sending_alone_and_no_place_to_write_are_refused_together(capsys):
    assert main(["export", "4ae3dec83b413e62", "--public", "--yes"]) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in ("--to:", "--public:", "--yes:"))

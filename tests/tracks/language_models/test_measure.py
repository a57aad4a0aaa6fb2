"""Measured on the spot: the command, and what the resident engine is asked."""

from __future__ import annotations

import json

import pytest

from engine.cli import main
from engine.core.errors import RequestError
from engine.report.bundle import write_masks
from engine.resident.asks import answer_here
from engine.resident.warm import Warm
from engine.store.runs import EMBEDDED, Run, Store
from engine.tracks.language_models import opening
from engine.tracks.language_models.run import run_audit
from tests.tracks.language_models.worlds import world_request


@pytest.fixture(scope="module")
def run(words_judged_here, tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("world")
    return run_audit(
        world_request(folder, methods=("magnitude", "bias_only")), Store(folder / "store")
    )


def test_the_command_says_what_was_predicted_and_measured(run, copy, tmp_path, capsys):
    words = ["measure", run.id, "--store", str(tmp_path)]
    assert main([*words, "--sparsity", "0.25", "--all-axes"]) == 0
    said = capsys.readouterr().out
    assert "magnitude-s0.250, 3 cut, religion" in said and "change of bias" in said
    assert "predicted" in said and "measured" in said and "fewer than the 39" in said
    mask = write_masks(run, tmp_path / "masks", "magnitude-s0.300")[0]
    assert main([*words, "--mask", str(mask), "--name", "mine", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (
        told["split"] == "validation"
        and told["tried"] == 1
        and list(told["variants"]) == ["by-hand-mine"]
    )
    bias = next(row for row in told["rows"] if row["number"] == "change of bias")
    assert (
        bias["predicted_low"] <= bias["predicted"] <= bias["predicted_high"]
        and bias["measured"] is not None
    )
    assert main([*words, "--heads", "0.1, 2.3", "--split", "test"]) == 0
    assert "2 cut, nationality" in capsys.readouterr().out
    assert main(["runs", "verify", run.id, "--store", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("has the bytes that were written") > 3


def test_another_track_says_that_it_cannot(tmp_path, capsys):
    store = Store(EMBEDDED, read_only=True)
    other = next(id_ for id_ in store.ids() if store.open(id_).meta["track"] != "language_models")
    assert main(["measure", other, "--store", str(tmp_path), "--sparsity", "0.5"]) == 2
    assert "start the audit again with" in " ".join(capsys.readouterr().err.split())


def test_asked_twice_the_model_is_loaded_once(run, copy, tmp_path, monkeypatch):
    loads, load = [], opening.load_language_model
    monkeypatch.setattr(
        opening,
        "load_language_model",
        lambda *args, **kwargs: loads.append(1) or load(*args, **kwargs),
    )
    warm, store, given = Warm(), Store(tmp_path), {"run": run.id, "axis": "religion"}
    one = answer_here("measure", {**given, "method": "magnitude", "level": 0.25}, store, warm=warm)
    two = answer_here("measure", {**given, "units": [0, 7], "name": "mine"}, store, warm=warm)
    assert len(loads) == 1 and len(warm.names()) == 2
    assert one["added"] != two["added"] and two["variants"] == {"by-hand-mine": [[0, 0], [1, 3]]}
    again = answer_here(
        "measure", {**given, "method": "magnitude", "level": 0.25}, store, warm=warm
    )
    assert again["added"] is None and again["rows"] == one["rows"]
    with pytest.raises(RequestError, match="'depth' is not known"):
        answer_here("measure", {**given, "depth": 3}, store, warm=warm)

"""An audit with heads silenced to their means: other effects, its own measurements, and a mask that
says so."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from engine.cli import main
from engine.report.bundle import export_run
from engine.store.runs import Store
from engine.tracks.language_models.run import run_audit, scores_only
from tests.tracks.language_models.worlds import world_request


def test_means_change_scores_and_travel_with_the_mask(words_judged, tmp_path, capsys):
    store = Store(tmp_path / "store")
    zero = world_request(
        tmp_path, axes=("religion",), methods=("fasp",), sparsities=(0.0, 0.3), controls=0
    )
    mean = replace(zero, ablation="mean")
    runs = [run_audit(one, store) for one in (zero, mean)]
    values = [
        run.table("scores").query("seed == -1 and score == 'z_ppl'")["value"].to_numpy()
        for run in runs
    ]
    assert np.abs(values[0] - values[1]).max() > 1e-3
    dense = [run.table("results").query("variant == 'dense'")["value"].to_numpy() for run in runs]
    np.testing.assert_allclose(dense[0], dense[1], rtol=1e-4)
    assert runs[0].meta["model"] == runs[1].meta["model"], "as many parameters"
    assert runs[1].table("costs").query("variant != 'dense'")["agrees"].eq(True).all()
    assert "head_means" not in runs[0].meta["tables"] and len(runs[1].table("head_means")) == 12

    export_run(runs[1], tmp_path / "out", ["masks", "checkpoint"])
    path = sorted((tmp_path / "out").rglob("*.mask.json"))[-1]
    record = json.loads(path.read_text())
    assert record["settings"]["ablation"] == "mean" and len(record["units"][0]["mean"]) == 8
    words = f"apply {path} --model {mean.model} --to {tmp_path / 'cut'} --device cpu --json"
    assert main(words.split()) == 0
    assert json.loads(capsys.readouterr().out)["masked_equals_reloaded"]


def test_a_resumed_run_has_the_same_means(words_judged, tmp_path):
    request = world_request(tmp_path, axes=("religion",), ablation="mean", estimator="gradient")
    store = Store(tmp_path / "store")
    first = scores_only(request, store)
    counted = len(list((tmp_path / "store").rglob("*.shard")))
    assert scores_only(request, store).equals(first)
    assert len(list((tmp_path / "store").rglob("*.shard"))) == counted, "nothing is computed twice"

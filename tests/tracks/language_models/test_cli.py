"""The command line: exit codes, JSON, and bad input that writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from engine.cli import main
from tests.builders import instead
from tests.places import SHARED
from tests.tracks.language_models.worlds import words_of


@pytest.fixture
def words(words_judged, tmp_path):
    rest = f"--seeds 1 --new-tokens 5 --store {tmp_path / 'store'} --json"
    return [*words_of("audit", tmp_path)[1:], *rest.split()]


def call(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out = capsys.readouterr().out
    return code, json.loads(out) if out.strip().startswith(("{", "[")) else out


def test_audit_show_verify_export_apply(capsys, tmp_path, words):
    code, done = call(capsys, "audit", *words, "--method", "fasp", "--method", "magnitude")
    assert code == 0 and {row["method"] for row in done["results"]} == {
        "dense",
        "fasp",
        "magnitude",
    }
    store = ["--store", tmp_path / "store", "--json"]
    assert [run["id"] for run in call(capsys, "runs", "list", *store)[1]] == [done["run"]]
    assert call(capsys, "runs", "show", done["run"], *store)[1]["results"] == done["results"]
    assert call(capsys, "runs", "verify", done["run"], *store)[1]["ok"]
    code, listed = call(
        capsys, "export", done["run"], "--to", tmp_path / "out", "--what", "masks,tables", *store
    )
    assert code == 0 and all(Path(path).exists() for path in listed["files"])
    mask = next(path for path in Path(tmp_path / "out").rglob("*.json") if "fasp" in str(path))
    code, applied = call(
        capsys, "apply", mask, "--model", words[1], "--to", tmp_path / "cut", "--json"
    )
    assert code == 0 and applied["masked_equals_cut"] and applied["masked_equals_reloaded"]
    assert applied["parameters_after"] < applied["parameters_before"]
    shard = next((tmp_path / "store" / "shards").rglob("*.shard"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    code, said = call(capsys, "export", done["run"], "--to", tmp_path / "other", *store)
    assert code == 2 and shard.name in str(said) and not (tmp_path / "other").exists(), (
        "it does not verify"
    )


def test_scores_writes_a_table(capsys, tmp_path, words):
    for name, read in (("s.csv", pd.read_csv), ("s.parquet", pd.read_parquet)):
        assert call(capsys, "scores", *words, "--out", tmp_path / name)[0] == 0
        assert len(read(tmp_path / name)) == 12
    code, said = call(capsys, "scores", *words, "--out", tmp_path / "s.xls")
    assert code == 2 and ".parquet" in str(said)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["--sparsity", "0.1001,0.1004"], "one to three decimals"),
        (["--sparsity", "1e-300"], "too small"),
        (["--no-such-option"], "command line"),
    ],
)
def test_wrong_requests_exit_with_2_and_write_nothing(capsys, tmp_path, words, extra, said):
    code, out = call(capsys, "audit", *instead(words, *extra))
    assert code == 2 and said in json.dumps(out, ensure_ascii=False)
    assert not (tmp_path / "store").exists()


def test_a_model_that_turns_out_not_to_load_leaves_nothing(capsys, tmp_path, words):
    config = Path(words[1]) / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "n_layer": 9}))
    code, said = call(capsys, "predict", *words)
    assert code == 2 and "lacks" in str(said) and not (tmp_path / "store").exists()


@pytest.mark.parametrize("run", ["../x", "../../etc/passwd", "no-such-run"])
@pytest.mark.parametrize("command", ["runs show {}", "runs verify {}", "export {} --to {to}"])
def test_a_run_id_cannot_leave_the_store(capsys, tmp_path, command, run):
    words = command.format(run, to=tmp_path / "out").split()
    assert main([*words, "--store", str(tmp_path / "store")]) == 2
    assert "Traceback" not in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_mask_for_another_model_is_refused(capsys, tmp_path, words):
    shape = {"n_layers": 3, "n_heads": 4, "units": [{"layer": 0, "head": 1}]}
    mask = {"schema": 1, "model": "m", "weight_hash": "0" * 64, **shape}
    path, to = tmp_path / "mask.json", tmp_path / "cut"
    path.write_text(json.dumps(mask))
    code, said = call(capsys, "apply", path, "--model", words[1], "--to", to, "--json")
    assert code == 2 and not to.exists() and "weights 0000" in json.dumps(said)


def test_a_store_that_cannot_be_written_is_said_first(capsys, tmp_path, words):
    (tmp_path / "file").write_text("x")
    code = main(["audit", *instead(words, "--store", str(tmp_path / "file" / "store"))])
    assert code == 2 and "is a file" in capsys.readouterr().out


@pytest.mark.skipif(not SHARED.is_dir(), reason="reference data (../shared/data) is not here")
def test_import_scores_prints_the_published_findings(capsys):
    path = SHARED / "fasp_head_scores" / "head_scores_gpt2.csv"
    code, found = call(capsys, "import-scores", path, "--json")
    assert code == 0 and found["in_axes"]["136"] == 5 and found["in_axes"]["133"] == 4
    assert {"correlation", "top_heads", "in_axes", "selection"} <= set(found)


@pytest.mark.parametrize(
    ("command", "wrong", "where"),
    [
        ("audit", "--reading wrong --sparsity 0.1 --store file/s", {"reading", "store"}),
        (
            "scores --out scores.xls",
            "--reading wrong --store file/s",
            {"reading", "store", "--out"},
        ),
        ("audit", "--sparsity 0,x --store file/s", {"--sparsity", "store"}),
        ("audit", "--dtype int8 --device tpu --reading wrong", {"dtype", "device", "reading"}),
        ("scores --out file/s.csv", "--sparsity 0.1", {"--out"}),
    ],
)
def test_all_faults_are_told_together_before_anything_is_scored(
    capsys, tmp_path, monkeypatch, words, command, wrong, where
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("in the way")
    code, out = call(capsys, *command.split(), *instead(words, *wrong.split()))
    assert code == 2 and {fault["where"] for fault in out["faults"]} == where
    assert ("part of the path is a file" in str(out)) == ("--store file/s" in wrong)
    assert not (tmp_path / "store").exists()

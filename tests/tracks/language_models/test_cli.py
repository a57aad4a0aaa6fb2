"""The command line: exit codes, JSON, and bad input that writes nothing."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.builders import call
from tests.tracks.language_models.worlds import words_of


@pytest.fixture
def words(words_judged, tmp_path):
    rest = f"--seeds 1 --new-tokens 5 --store {tmp_path / 'store'} --json"
    return [*words_of("audit", tmp_path)[1:], *rest.split()]


def test_scores_writes_a_table_with_a_row_per_head(capsys, tmp_path, words):
    for name, read in (("s.csv", pd.read_csv), ("s.parquet", pd.read_parquet)):
        assert call(capsys, "scores", *words, "--out", tmp_path / name)[0] == 0
        table = read(tmp_path / name)
        assert len(table) == 12 and table["critical"].sum() == 3
        names = "layer head z_bias_religion z_bias_religion_low z_ppl seeds n_religion"
        assert table[names.split()].notna().all(None)


def test_a_model_that_turns_out_not_to_load_leaves_nothing(capsys, tmp_path, words):
    config = Path(words[1]) / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "n_layer": 9}))
    code, said = call(capsys, "predict", *words)
    assert code == 2 and "lacks" in str(said) and not (tmp_path / "store").exists()


def test_a_mask_for_another_model_is_refused(capsys, tmp_path, words):
    shape = {"n_layers": 3, "n_heads": 4, "units": [{"layer": 0, "head": 1}]}
    mask = {"schema": 1, "model": "m", "weight_hash": "0" * 64, **shape}
    path, to = tmp_path / "mask.json", tmp_path / "cut"
    path.write_text(json.dumps(mask))
    code, said = call(capsys, "apply", path, "--model", words[1], "--to", to, "--json")
    assert code == 2 and not to.exists() and "weights 0000" in json.dumps(said)

"""The command line on text classifiers: exit codes, JSON, scores as a table, and bad input that
writes nothing."""

import pandas as pd

from engine.cli import main
from engine.models.load_text_classifier import inspect_text_model
from engine.surgery.record import MaskRecord, write_mask
from tests.builders import call, evaluated


def test_scores_of_a_text_classifier(world, tmp_path):
    words = (
        f"scores --model {world}/model --task {world}/colours.csv --store {tmp_path}/store"
        f" --out {tmp_path}/scores.csv --method conductance --method michel"
        " --set conductance.steps=2 --score-texts 6 --seeds 1"
    )
    assert main(words.split()) == 0
    table = pd.read_csv(tmp_path / "scores.csv", keep_default_na=False)
    assert set(table["score"]) == {"conductance", "michel"}
    assert set(table["stage"]) == {"pre-trained", "fine-tuned"}
    assert (table[table["axis"] == ""].groupby(["stage", "score"]).size() == 12).all()


def test_a_cut_model_is_evaluated_and_what_is_cut_short_is_counted(world, tmp_path, capsys):
    info = inspect_text_model(world / "model")
    record = MaskRecord(info.name, None, info.weight_hash, 3, 4, ((0, 1), (2, 3)), realised=2 / 12)
    mask = write_mask(tmp_path / "mask.json", record)
    words = f"apply {mask} --model {world}/model --to {tmp_path}/cut --json"
    assert call(capsys, *words.split())[1]["heads_cut"] == 2
    asked = f"--model {tmp_path}/cut --data {world}/colours.csv --axis side".split()
    found = evaluated(capsys, *asked)[1]
    assert found["texts"] == 45 and not any("longer than" in note for note in found["notes"])
    assert {row["group"] for row in found["results"] if row["axis"] == "side"} >= {"left", "right"}
    notes = evaluated(capsys, *asked, "--max-length", "8")[1]["notes"]
    assert any("longer than 8 tokens" in note for note in notes)

"""What an audit of a tiny text classifier hands over: cut models that answer as it says, and panels
of its tables."""

import json

import pytest

from engine.core.errors import MaskError, RequestError
from engine.report.bundle import export_run
from engine.surgery.heads.replay import load_cut_classifier
from engine.tracks.text_classifiers.checkpoint import answers_agree, write_checkpoint
from engine.tracks.text_classifiers.run import run_text_audit
from tests.builders import changed
from tests.classifiers.worlds import spoil_loading
from tests.tracks.text_classifiers.worlds import model_folder, text_request

METHODS = ("one-shot-isp:conductance", "one-shot-isp:random", "once:conductance")


def audited(world, store, **asked):
    return run_text_audit(text_request(world, axes=("side",), sparsities=(0.25,), **asked), store)


@pytest.fixture(scope="module")
def run(world, store):
    """Every seed fine-tunes a full model of its own."""
    return audited(world, store, methods=METHODS, trials=2)


@pytest.fixture(scope="module")
def brought(world, store):
    """The full model is one fixed model."""
    return audited(world, store, methods=METHODS[2:], trials=1, retune=False)


def test_a_checkpoint_that_loads_with_one_weight_off_is_refused(run, tmp_path, monkeypatch):
    """By 1 %, which moves no probability by more than other hardware may."""
    spoil_loading(monkeypatch)
    with pytest.raises(MaskError, match="same_weights.: false.*nothing was kept"):
        export_run(run, tmp_path / "out", ("checkpoint",))
    assert not list(tmp_path.rglob("mask.json"))


@pytest.mark.parametrize("arm", ["one-shot-isp:conductance", "once:conductance"])
def test_a_checkpoint_answers_as_the_audit_says(run, tmp_path, arm):
    variants = run.table("variants")
    row = variants[(variants["method"] == arm) & (variants["seed"] == 0)].iloc[0]
    paths = export_run(run, tmp_path, ("checkpoint",), variant=row["variant"])
    folder = next(path.parent for path in paths if path.name == "mask.json")
    found = json.loads((folder / "agreement.json").read_text())
    assert found["holds"] and found["texts"] == 45 and found["largest_difference"] < 1e-5
    again = load_cut_classifier(folder)
    assert (
        list(again.cut.units) == json.loads(row["cut"])
        and list(again.classes) == run.meta["model"]["classes"]
    )
    card = (folder / "README.md").read_text()
    assert (
        "heads" in card
        and "engine.surgery.heads.replay.load_cut_classifier" in card
        and "ticket" in card
    )


def test_a_pooled_variant_stands_for_its_first_seed_and_others_need_their_weights(run, tmp_path):
    variants = run.table("variants")
    pooled = (
        variants[(variants["method"] == METHODS[0]) & (variants["seed"] == -1)].iloc[0].to_dict()
    )
    write_checkpoint(run, pooled, tmp_path / "pooled")
    mask = json.loads((tmp_path / "pooled" / "mask.json").read_text())
    assert mask["settings"]["variant"].endswith("#0") and mask["run"] == run.id
    second = (
        variants[(variants["method"] == METHODS[2]) & (variants["seed"] == 1)].iloc[0].to_dict()
    )
    with pytest.raises(RequestError, match="'dense#1' has no weights in this audit"):
        write_checkpoint(run, second, tmp_path / "second")


def test_of_a_model_that_was_brought_the_weights_are_its_own(brought, tmp_path):
    row = brought.table("variants").query("seed == 0").iloc[0].to_dict()
    paths = write_checkpoint(brought, row, tmp_path / "cut")
    assert {path.name for path in paths} >= {"mask.json", "config.json", "agreement.json"}
    assert json.loads((tmp_path / "cut" / "agreement.json").read_text())["holds"]


def test_another_model_or_other_answers_are_refused(run, brought, tmp_path):
    row = brought.table("variants").query("seed == 0").iloc[0].to_dict()
    other = model_folder(tmp_path / "other", "distilbert")
    with pytest.raises(RequestError, match="the audit was of"):
        write_checkpoint(brought, row, tmp_path / "refused", str(other))
    wrong = changed(brought, tmp_path, "predictions", {"p_0": 0.9, "p_1": 0.05, "p_2": 0.05})
    with pytest.raises(MaskError, match="does not answer as the audit says"):
        write_checkpoint(wrong, row, tmp_path / "wrong")
    none = changed(brought, tmp_path / "none", "predictions", lambda table: table.iloc[:0])
    assert not answers_agree(none, row["variant"], None)["holds"]

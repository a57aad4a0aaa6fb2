"""Requests for audits of text classifiers: every fault at once, and equal requests are one run."""

import shutil
from dataclasses import replace

from engine.audit.fields import fields_of
from engine.tracks.text_classifiers import words
from engine.tracks.text_classifiers.request import TextRequest, disk_faults, validate_text
from engine.tracks.text_classifiers.scores.base import head_importances
from tests.builders import faults_of
from tests.tiny import build, folder_of
from tests.tracks.text_classifiers.worlds import text_request


def told_of(request):
    found = faults_of(validate_text, request)
    return {fault.where: f"{fault.what} {fault.fix}" for fault in found}


def test_the_usual_score_and_fine_tuning_are_the_same_run_when_said(world):
    one = validate_text(text_request(world, methods=("isp", "once:random")))
    other = validate_text(
        text_request(world, methods=("isp:conductance", "once:random"), title="x", retune=True)
    )
    assert one.run_id == other.run_id


def test_the_run_follows_the_content_and_not_the_name(world, tmp_path):
    shutil.copytree(world, tmp_path / "moved")
    moved = text_request(tmp_path / "moved")
    assert validate_text(moved).run_id == validate_text(text_request(world)).run_id
    found = [validate_text(moved).run_id]
    for name in ("model/config.json", "model/pretrained/tokenizer.json"):
        path = tmp_path / "moved" / name
        path.write_text(path.read_text() + "\n")
        found.append(validate_text(moved).run_id)
    build("bert", tmp_path / "moved" / "model" / "pretrained", seed=5)
    assert len({*found, validate_text(moved).run_id}) == 4, "configuration, tokenizer, weights"


def test_procedures_that_train_need_the_weights_before_fine_tuning(world, tmp_path):
    shutil.copytree(world, tmp_path / "w")
    shutil.rmtree(tmp_path / "w" / "model" / "pretrained")
    mine = text_request(tmp_path / "w", retune=None, methods=("isp", "once", "igspf"))
    assert "igspf, isp starts from the weights before that" in told_of(mine)["pretrained"]
    named = replace(mine, pretrained=str(world / "model" / "pretrained"))
    assert validate_text(named).start_name == str(world / "model" / "pretrained")


def test_pretrained_weights_of_another_shape(world, tmp_path):
    build("roberta", tmp_path / "other")
    assert (
        "roberta with 3 x 4 heads"
        in told_of(text_request(world, pretrained=str(tmp_path / "other")))["pretrained"]
    )


def test_a_head_for_other_classes(world, tmp_path):
    data = tmp_path / "two.csv"
    rows = [
        f"w{n} w{n + 1},{'yes' if n % 2 else 'no'},{'test' if n > 20 else 'train'}"
        for n in range(40)
    ]
    data.write_text("\n".join(["text,label,split", *rows]))
    request = text_request(world, data=str(data), axes=("class",))
    assert "has 3 outputs, two has 2 classes" in told_of(replace(request, retune=False))["classes"]
    assert validate_text(request).retune  # a new head fits whatever there is


def test_labels_follow_the_models_outputs_where_it_names_them(world):
    """The model says red, green, blue; sorted names would be blue, green, red."""
    plan = validate_text(text_request(world, retune=False))
    assert plan.texts.classes == ("red", "green", "blue")
    first = plan.texts.table.iloc[0]
    assert {"w1": "red", "w2": "green", "w3": "blue"}[
        first["text"].split()[0]
    ] == plan.texts.classes[first["label"]]


def test_a_disk_that_is_too_small_is_said_before_the_work(world, tmp_path, monkeypatch):
    plan = validate_text(text_request(world))
    assert disk_faults(plan.request, plan.model, tmp_path / "not" / "there") == []
    full = type("Usage", (), {"free": 10})()
    monkeypatch.setattr(
        "engine.tracks.text_classifiers.request.shutil.disk_usage", lambda path: full
    )
    assert "fine-tuned models need about" in disk_faults(plan.request, plan.model, tmp_path)[0].what


def test_a_model_that_goes_through_its_layers_again_is_refused_with_the_reason(world):
    found = told_of(text_request(world, model=str(folder_of("albert"))))
    assert "would mix its depths" in found["model"]


def test_more_weights_than_a_run_can_keep_are_said_before_the_work(world, monkeypatch):
    monkeypatch.setattr("engine.tracks.text_classifiers.request.MOST_KEPT", 100_000)
    found = told_of(text_request(world))
    assert (
        "weights of 7 models are about 0.0 GB" in found["keep_weights"]
    )  # 2 sparsities x 3 procedures + the full one
    assert validate_text(text_request(world, keep_weights="none")).retune


def test_a_model_without_a_head_cannot_be_taken_as_it_is(world, tmp_path):
    from transformers import BertConfig, BertModel

    folder = tmp_path / "encoder"
    shutil.copytree(world / "model" / "pretrained", folder)
    config = BertConfig.from_pretrained(folder)
    BertModel(config).save_pretrained(folder)
    request = text_request(world, model=str(folder), retune=False)
    assert "answers nothing" in told_of(request)["retune"]
    assert validate_text(replace(request, retune=None)).start_name == str(folder)


def test_pretrained_weights_that_are_none(world, tmp_path):
    same = text_request(world, pretrained=str(world / "model"))
    assert "fine-tuned already" in told_of(same)["pretrained"]
    build("bert", tmp_path / "wide", hidden_size=64)
    wide = text_request(world, pretrained=str(tmp_path / "wide"))
    assert ", 64 wide" in told_of(wide)["pretrained"]


def test_the_id_holds_the_versions_of_every_procedure_and_score_that_is_asked(world):
    plan = validate_text(text_request(world, methods=("isp", "once:random", "once:michel")))
    methods = {name for name in plan.versions if not name.startswith("measurement")}
    scores = {f"score {name}" for name in ("conductance", "random", "michel")}
    assert methods == {"audit", "procedure isp", "procedure once", *scores}


def test_a_score_without_words_of_its_own_is_offered_last(monkeypatch):
    monkeypatch.setattr(words, "IMPORTANCE", {"random": words.IMPORTANCE["random"]})
    methods = next(one for one in fields_of(TextRequest) if one.name == "methods")
    known = list(methods.parts[1].known())
    assert known[0] == "random" and sorted(known) == sorted(head_importances())


def test_the_usual_number_of_random_masks_is_part_of_what_a_run_is(world):
    usual = text_request(world, random_masks=None)
    assert (
        usual.n_random_masks == 200 and replace(usual, methods=("isp:random",)).n_random_masks == 0
    )
    plan, spelled = validate_text(usual), validate_text(replace(usual, random_masks=200))
    assert plan.spelled_out()["random_masks"] == 200 and plan.run_id == spelled.run_id
    assert validate_text(replace(usual, random_masks=0)).run_id != plan.run_id

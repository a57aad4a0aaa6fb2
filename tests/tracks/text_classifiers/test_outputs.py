"""What outputs mean: aligned by name, asked, or refused. The model is its own oracle: every label
is what it answers, so that its accuracy is 1 where outputs are taken for the right classes and 0
where two of them are exchanged.
"""

import json
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from safetensors.torch import load_file, save_file

from engine.core.errors import Fault, RequestError
from engine.core.types import HeadMask, rng
from engine.data.texts.load import TextAsk
from engine.models.load_text_classifier import (
    inspect_text_model,
    load_text_classifier,
    probabilities_of,
)
from engine.surgery.heads.mask import cut
from engine.surgery.heads.replay import load_cut_classifier, save_cut_classifier
from engine.surgery.record import record_of
from engine.tracks.text_classifiers.request import validate_text
from engine.tracks.text_classifiers.summary import evaluate_text
from tests.builders import accuracy, evaluated, faults_of
from tests.tiny import CLASSES, build, folder_of, save_encoder_tokenizer, tiny_text_classifier
from tests.tracks.text_classifiers.worlds import colour_csv, text_request

PLAIN = {"id2label": {0: "LABEL_0", 1: "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
SPLITS = ["train"] * 20 + ["test"] * 20


def text_model(folder, **names):
    """A tiny encoder that gives both of its outputs to many texts."""
    return build("bert", folder, 3, **(names or PLAIN))


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """40 texts of either output of that encoder: text, text_b, output, split."""
    model = load_text_classifier(
        text_model(tmp_path_factory.mktemp("m")), ("0", "1"), device="cpu", max_length=32
    )
    draw = rng("texts for outputs", 0)
    texts = [
        " ".join(f"w{one}" for one in draw.integers(1, 60, draw.integers(3, 9))) for _ in range(600)
    ]
    outputs = probabilities_of(model, texts, texts[::-1]).argmax(1)
    table = pd.DataFrame({"text": texts, "text_b": texts[::-1], "output": outputs})
    parts = [
        table[table["output"] == one].drop_duplicates("text").head(40).assign(split=SPLITS)
        for one in (0, 1)
    ]
    return pd.concat(parts, ignore_index=True)


def csv_of(table, names, file):
    """The texts with a class name per output."""
    labels = [names[at] for at in table["output"]]
    table.assign(label=labels)[["text", "text_b", "label", "split"]].to_csv(file, index=False)
    return file


def asked(capsys, model, data, classes=""):
    """The exit code of evaluate, and what it says."""
    more = ("--classes", classes) if classes else ()
    return evaluated(capsys, "--model", str(model), "--data", str(data), *more)


def test_outputs_without_names_are_asked_for(answered, tmp_path, capsys):
    """Before, classes in the order of letters were taken for the outputs: accuracy 0.000, and no
    note."""
    model = text_model(tmp_path / "m")
    data = csv_of(answered, ("normal", "hate"), tmp_path / "texts.csv")
    code, found = asked(capsys, model, data)
    assert code == 2
    (fault,) = found["faults"]
    assert (
        fault["where"] == "classes"
        and "gives them no names" in fault["what"]
        and "hate,normal" in fault["fix"]
    )
    assert len(fault["examples"]) == 3 and {text for text, _ in fault["examples"]} <= set(
        answered["text"]
    )
    said = {said.rpartition(" (")[0] for _, said in fault["examples"]}
    assert said == {
        "labelled hate; the model says output 1",
        "labelled normal; the model says output 0",
    }
    code, found = asked(capsys, model, data, "normal,hate")
    assert code == 0 and accuracy(found) == 1.0
    assert any(
        "says what the outputs mean: output 0 = normal, output 1 = hate" in note
        for note in found["notes"]
    )
    assert accuracy(asked(capsys, model, data, "hate,normal")[1]) == 0.0


def test_the_hub_numbers_rte_otherwise_than_its_files(answered, tmp_path, capsys):
    """The hub and most checkpoints: 0 = entailment. Before: accuracy 0.000 of a model that is
    always right."""
    task = tmp_path / "RTE"
    task.mkdir()
    names = answered["output"].map({0: "entailment", 1: "not_entailment"})
    for split, file in (("train", "train"), ("test", "dev")):
        rows = answered.assign(label=names)[answered["split"] == split].reset_index(drop=True)
        pairs = rows.rename(columns={"text": "sentence1", "text_b": "sentence2"}).rename_axis(
            "index"
        )
        pairs[["sentence1", "sentence2", "label"]].to_csv(task / f"{file}.tsv", sep="\t")
    model = text_model(tmp_path / "m")
    code, found = asked(capsys, model, task)
    assert (
        code == 2 and "The hub numbers them entailment,not_entailment" in found["faults"][0]["fix"]
    )
    code, found = asked(capsys, model, task, "entailment,not_entailment")
    assert accuracy(found) == 1.0
    named = text_model(
        tmp_path / "named",
        id2label={0: "Entailment", 1: "not entailment"},
        label2id={"Entailment": 0, "not entailment": 1},
    )
    code, found = asked(capsys, named, task)
    assert code == 0 and accuracy(found) == 1.0


def test_an_audit_asks_as_evaluate_does(answered, tmp_path, capsys):
    model, data = (
        text_model(tmp_path / "m"),
        csv_of(answered, ("normal", "hate"), tmp_path / "a.csv"),
    )
    request = text_request(
        tmp_path,
        model=str(model),
        data=str(data),
        axes=("class",),
        methods=("once:michel",),
        retune=None,
        sparsities=(0.5,),
    )
    told = [Fault.from_dict(one) for one in asked(capsys, model, data)[1]["faults"]]
    assert told == list(faults_of(validate_text, request))
    plans = [
        validate_text(replace(request, classes=classes))
        for classes in (("normal", "hate"), ("hate", "normal"))
    ]
    assert [plan.texts.classes for plan in plans] == [plan.request.classes for plan in plans]
    assert plans[0].run_id != plans[1].run_id and plans[0].texts.digest != plans[1].texts.digest


def test_classes_that_contradict_the_files_are_refused(answered, tmp_path, capsys):
    model = text_model(
        tmp_path / "m", id2label={0: "normal", 1: "hate"}, label2id={"normal": 0, "hate": 1}
    )
    data = csv_of(answered, ("normal", "hate"), tmp_path / "texts.csv")
    assert accuracy(asked(capsys, model, data)[1]) == 1.0
    for classes, said in (
        ("hate,normal", "name its outputs in another order"),
        ("hate,kind", "are not the classes"),
    ):
        code, found = asked(capsys, model, data, classes)
        assert code == 2 and said in found["faults"][0]["what"]


def test_the_usual_groups_leave_out_what_is_predicted(answered, tmp_path, capsys):
    """Before, evaluate --target site was refused, for site was a group that nobody had asked
    for."""
    model, data = text_model(tmp_path / "m"), tmp_path / "texts.csv"
    sites = answered.assign(label="x", site=answered["output"].map({0: "a", 1: "b"}))
    sites.drop(columns="output").to_csv(data, index=False)
    code, found = evaluated(
        capsys, "--model", str(model), "--data", str(data), "--target", "site", "--classes", "a,b"
    )
    assert code == 0 and accuracy(found) == 1.0


# Parts of a text classifier that do not go together: head, tokenizer and weights, and cut models
# edited afterwards.


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(folder_of("bert"), tmp_path / "model")


def notes_on(folder, tmp_path):
    data = colour_csv(tmp_path / "colours.csv")
    return evaluate_text(str(folder), str(data), TextAsk(), ("class",), "test", None, "cpu").notes


def edited(folder, **fields):
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(said | fields))


def test_a_head_that_is_not_whole_is_refused_before_an_audit_is_asked_for(folder):
    """Before, inspect and the form took it, and loading it refused it."""
    weights = load_file(folder / "model.safetensors")
    del weights["classifier.bias"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(RequestError, match="lacks 1 tensor .* classifier.bias"):
        inspect_text_model(folder)


def test_a_tokenizer_that_does_not_know_the_texts_is_told(folder, tmp_path):
    """Of 43 words 9 are left; before, most of every text was <unk> and nobody said so."""
    assert not any("<unk>" in note for note in notes_on(folder, tmp_path))
    save_encoder_tokenizer(folder, 14)
    (note,) = [note for note in notes_on(folder, tmp_path) if "<unk>" in note]
    assert note.startswith("8") and "do tokenizer and texts belong to this model?" in note


def test_names_that_are_blank_name_no_output(folder):
    edited(folder, id2label={"0": "", "1": "green", "2": "blue"}, label2id=None)
    with pytest.raises(RequestError, match="does not name the outputs"):
        inspect_text_model(folder)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"problem_type": "multi_label_classification"}, "says by problem_type"),
        ({"label2id": {"red": 1, "green": 0, "blue": 2}}, "contradicts its id2label"),
    ],
)
def test_outputs_of_a_cut_model_are_read_as_those_of_a_whole_one(fields, why, tmp_path):
    """Before, whatever its config.json said besides id2label did not count."""
    whole, mask = tiny_text_classifier("bert"), HeadMask(3, 4, ((0, 1),))
    folder = save_cut_classifier(cut(whole, mask), record_of(whole, mask), tmp_path / "cut")
    assert load_cut_classifier(folder).classes == CLASSES
    edited(folder, **fields)
    with pytest.raises(RequestError, match=why):
        load_cut_classifier(folder)

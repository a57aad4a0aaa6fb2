"""Parts of a text classifier that do not go together: head, tokenizer and weights, and cut models
edited afterwards."""

import json
import shutil

import pytest
from safetensors.torch import load_file, save_file

from engine.core.errors import RequestError
from engine.core.types import HeadMask
from engine.data.texts.load import TextAsk
from engine.models.load_text_classifier import inspect_text_model
from engine.surgery.heads.mask import cut
from engine.surgery.heads.replay import load_cut_classifier, save_cut_classifier
from engine.surgery.record import record_of
from engine.tracks.text_classifiers.summary import evaluate_text
from tests.tiny import CLASSES, folder_of, save_encoder_tokenizer, tiny_text_classifier
from tests.tracks.text_classifiers.worlds import colour_csv


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

"""Masks of filters and cut classifiers on disk: as they were, or refused with every fault."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save

from engine.core.errors import RequestError
from engine.surgery.filters.graph import arrays_of, with_weights
from engine.surgery.filters.replay import (
    is_cut_folder,
    load_cut_classifier,
    same_weights,
    save_cut_classifier,
)
from engine.surgery.record import (
    FilterRecord,
    check_filter_mask_fits,
    groups_of,
    kind_of_mask,
    read_filter_mask,
    write_mask,
)
from tests.builders import refused
from tests.classifiers.worlds import SMALL, lively, some_cut, some_pixels


@pytest.fixture(scope="module")
def cut():
    whole = replace(lively(SMALL, 16), target="digit", mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    _, _, mask, small, history = some_cut(whole)
    retrained = {
        name: value + 0.125 if value.dtype.kind == "f" else value
        for name, value in arrays_of(small.model).items()
    }
    small = with_weights(small, retrained)
    record = FilterRecord(
        "digits",
        SMALL,
        whole.weight_hash,
        whole.classes,
        whole.size,
        groups_of(mask),
        history,
        "autobot",
        "pw",
        {"rate": 0.85},
        4.0,
        3.999,
        "run-1",
    )
    return small, record


@pytest.fixture
def plain(tmp_path, cut):
    return json.loads(write_mask(tmp_path / "mask.json", cut[1]).read_text())


def faults_of(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return "\n".join(refused(read_filter_mask, path))


def test_a_record_comes_back_as_it_was(tmp_path, cut):
    path = write_mask(tmp_path / "mask.json", cut[1])
    again = read_filter_mask(path)
    assert (
        again == cut[1] and again.mask == cut[0].cut and list(again.groups) == list(cut[1].groups)
    )
    assert again.mask.n_cut == sum(len(group["cut"]) for group in again.groups.values()) > 0
    assert kind_of_mask(path) == "filters"


def test_what_is_no_mask_of_filters(tmp_path, plain):
    for number, text in enumerate(
        ("[1]", "{", "", '{"kind": "heads"}', '{"schema": 1, "units": []}', "[" * 9999)
    ):
        path = tmp_path / f"{number}.json"
        path.write_text(text)
        assert kind_of_mask(path) != "filters"
        with pytest.raises(RequestError):
            read_filter_mask(path)
    assert kind_of_mask(tmp_path / "absent.json") == kind_of_mask(tmp_path) == ""
    with pytest.raises(RequestError, match="cannot be read"):
        read_filter_mask(tmp_path / "absent.json")
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(RequestError, match="no JSON object"):
        read_filter_mask(path)


def conv1(width, cut):
    return [{"group": "conv1", "width": width, "cut": cut}]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "heads"}, "Known: schema 1, kind 'filters'"),
        ({"history": [["conv1", 1, [0]]]}, "mask history"),
        ({"history": [["conv1", True]]}, "mask history"),
        ({"history": [["conv1", True, ["0"]]]}, "mask history"),
        ({"history": ["conv1"]}, "mask history"),
        ({"groups": conv1(0, [])}, "no name and width"),
        ({"groups": conv1(4, [4])}, "outside 0 to 3"),
        ({"groups": conv1(4, [-1])}, "outside 0 to 3"),
        ({"groups": conv1(4, [1, 1])}, "twice"),
        ({"groups": conv1(2, [0, 1])}, "cuts every filter"),
        ({"groups": conv1(2, [0.0])}, "whole numbers"),
        ({"groups": conv1(2, []) * 2}, "named twice"),
        ({"groups": ["conv1"]}, "no name and width"),
    ],
)
def test_every_fault_of_a_mask(tmp_path, plain, change, said):
    assert said in faults_of(tmp_path / "mask.json", {**plain, **change})


def test_faults_are_told_together(tmp_path, plain):
    groups = [{"group": "a", "width": 2, "cut": [0, 1]}, {"group": "b", "width": 2, "cut": [7]}]
    text = faults_of(tmp_path / "mask.json", {**plain, "groups": groups, "history": [1]})
    assert "every filter" in text and "outside" in text and "history" in text
    odd = {"settings": ["a"], "method": 5, "asked_speedup": "2"}
    text = faults_of(tmp_path / "mask.json", {"schema": 1, "kind": "filters", **odd})
    assert text.count("missing or of the wrong kind") == 7
    assert text.count("is of the wrong kind") == 3


def test_a_mask_for_another_model_says_both_faults(cut):
    check_filter_mask_fits(cut[1], SMALL, cut[1].weight_hash, "mine")
    found = refused(check_filter_mask_fits, cut[1], "resnet18", "f" * 64, "mine")
    text = "\n".join(found)
    assert len(found) == 2 and "mine is resnet18" in text and "ffffffffffffffff…" in text


def test_a_cut_classifier_comes_back_bit_equal(tmp_path, cut):
    small, record = cut
    folder = save_cut_classifier(small, record, tmp_path / "model")
    again = load_cut_classifier(folder, "cpu")
    assert is_cut_folder(folder) and same_weights(small, again)
    assert (again.classes, again.size, again.target, again.cut) == (
        small.classes,
        16,
        "digit",
        record.mask,
    )
    assert (again.mean, again.std, again.weight_hash) == (small.mean, small.std, record.weight_hash)
    images = small.prepared(some_pixels(4, 16))
    with torch.no_grad():
        assert torch.equal(again.model(again.prepared(some_pixels(4, 16))), small.model(images))
    assert not again.model.training and not any(
        one.requires_grad for one in again.model.parameters()
    )


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path, cut):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(RequestError, match="not an empty folder"):
        save_cut_classifier(*cut, tmp_path / "mine")
    assert os.listdir(tmp_path / "mine") == ["thesis.txt"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(RequestError, match="not an empty folder"):
        save_cut_classifier(*cut, tmp_path / "file")


def weights(change):
    def damage(folder):
        path = folder / "cut.safetensors"
        path.write_bytes(change(path.read_bytes()))

    return damage


def document(name, change):
    def damage(folder):
        value = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(value | change(value)))

    return damage


def one_less(mask):
    """A filter that is not named, though the history cuts it."""
    next(group for group in mask["groups"] if len(group["cut"]) > 1)["cut"].pop()
    return mask


def of_another(_):
    state = lively(SMALL, 16).model.state_dict()
    return save({name: value.contiguous() for name, value in state.items()})


DAMAGE = {
    "weights gone": lambda folder: (folder / "cut.safetensors").unlink(),
    "no card": lambda folder: (folder / "model.json").unlink(),
    "no mask": lambda folder: (folder / "mask.json").unlink(),
    "weights short": weights(lambda content: content[:-100]),
    "one bit": weights(lambda content: content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]),
    "weights of another": weights(of_another),
    "card without mean": document("model.json", lambda card: {"mean": [1, 2]}),
    "short history": document("mask.json", lambda mask: {"history": mask["history"][:-1]}),
    "one filter less": document("mask.json", one_less),
    "no filter": document("mask.json", lambda mask: {"groups": []}),
    "no size": document("mask.json", lambda mask: {"size": 0}),
    "numbers as classes": document("mask.json", lambda mask: {"classes": [1, 2]}),
    "one class": document("mask.json", lambda mask: {"classes": ["one"]}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_refused(tmp_path, cut, damage):
    """A wrong request, not a crash, at the latest by the model that is made from it."""
    folder = save_cut_classifier(*cut, tmp_path / "model")
    DAMAGE[damage](folder)
    with pytest.raises(RequestError):
        load_cut_classifier(folder, "cpu")


def test_weights_as_arrays_and_back(cut):
    small = cut[0]
    arrays = arrays_of(small.model)
    again = with_weights(small, {name: np.array(value) for name, value in arrays.items()})
    assert same_weights(small, again) and again.model is not small.model
    arrays["fc.bias"] = arrays["fc.bias"] + 1
    other = with_weights(small, arrays)
    assert not same_weights(small, other) and other.weight_hash != again.weight_hash
    assert float(small.model.fc.bias[0]) + 1 == pytest.approx(float(other.model.fc.bias[0]))

"""Masks of filters and cut classifiers on disk: as they were, or refused with every fault."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.core.errors import RequestError
from engine.surgery.filters.graph import arrays_of, cut_filters, filter_graph, with_weights
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
from tests.classifiers.worlds import SMALL, lively, some_mask, some_pixels


@pytest.fixture(scope="module")
def cut():
    whole = replace(lively(SMALL, 16), target="digit", mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    graph = filter_graph(whole)
    mask = graph.mask(some_mask(graph))
    small, history = cut_filters(whole, mask)
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


def faults_of(path, value) -> str:
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


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 2}, "schema 2"),
        ({"kind": "heads"}, "Known: schema 1, kind 'filters'"),
        ({"classes": "ab"}, "mask classes"),
        ({"size": True}, "mask size"),
        ({"groups": {}}, "mask groups"),
        ({"settings": ["a"]}, "mask settings"),
        ({"method": 5}, "mask method"),
        ({"asked_speedup": "2"}, "mask asked_speedup"),
        ({"weight_hash": None}, "mask weight_hash"),
        ({"history": [["conv1", 1, [0]]]}, "mask history"),
        ({"history": [["conv1", True]]}, "mask history"),
        ({"history": [["conv1", True, ["0"]]]}, "mask history"),
        ({"history": ["conv1"]}, "mask history"),
        ({"groups": [{"group": "conv1", "width": 0, "cut": []}]}, "no name and width"),
        ({"groups": [{"group": "conv1", "width": 4, "cut": [4]}]}, "outside 0 to 3"),
        ({"groups": [{"group": "conv1", "width": 4, "cut": [-1]}]}, "outside 0 to 3"),
        ({"groups": [{"group": "conv1", "width": 4, "cut": [1, 1]}]}, "twice"),
        ({"groups": [{"group": "conv1", "width": 2, "cut": [0, 1]}]}, "cuts every filter"),
        ({"groups": [{"group": "conv1", "width": 2, "cut": [0.0]}]}, "whole numbers"),
        ({"groups": [{"group": "conv1", "width": 2, "cut": []}] * 2}, "named twice"),
        ({"groups": ["conv1"]}, "no name and width"),
    ],
)
def test_every_fault_of_a_mask(tmp_path, plain, change, said):
    assert said in faults_of(tmp_path / "mask.json", {**plain, **change})


def test_faults_are_told_together(tmp_path, plain):
    groups = [{"group": "a", "width": 2, "cut": [0, 1]}, {"group": "b", "width": 2, "cut": [7]}]
    text = faults_of(tmp_path / "mask.json", {**plain, "groups": groups, "history": [1]})
    assert "every filter" in text and "outside" in text and "history" in text
    text = faults_of(tmp_path / "mask.json", {"schema": 1, "kind": "filters"})
    assert text.count("missing or of the wrong kind") == 7


@pytest.mark.parametrize(
    "change",
    [{"size": 0}, {"size": -5}, {"classes": [1, 2]}, {"classes": ["one"]}],
    ids=str,
)
def test_values_that_no_model_can_have_are_refused_when_the_mask_is_read_or_used(
    tmp_path, cut, plain, change
):
    """At the latest the model that is made from the mask says so, as a wrong request and not as a
    crash."""
    folder = save_cut_classifier(*cut, tmp_path / "model")
    (folder / "mask.json").write_text(json.dumps({**plain, **change}))
    with pytest.raises(RequestError):
        load_cut_classifier(folder, "cpu")


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


@pytest.mark.parametrize(
    "damage",
    [
        "weights gone",
        "weights short",
        "weights of another",
        "no card",
        "card without mean",
        "no mask",
        "short history",
    ],
)
def test_a_damaged_folder_is_refused(tmp_path, cut, damage):
    folder = save_cut_classifier(*cut, tmp_path / "model")
    weights, card, mask = folder / "cut.safetensors", folder / "model.json", folder / "mask.json"
    if damage == "weights gone":
        weights.unlink()
    elif damage == "weights short":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif damage == "weights of another":
        from safetensors.torch import save_file

        save_file(
            {
                name: value.contiguous()
                for name, value in lively(SMALL, 16).model.state_dict().items()
            },
            weights,
        )
    elif damage == "no card":
        card.unlink()
    elif damage == "card without mean":
        card.write_text(json.dumps({**json.loads(card.read_text()), "mean": [1, 2]}))
    elif damage == "no mask":
        mask.unlink()
    else:
        value = json.loads(mask.read_text())
        mask.write_text(json.dumps({**value, "history": value["history"][:-1]}))
    with pytest.raises(RequestError):
        load_cut_classifier(folder, "cpu")


def test_one_changed_bit_in_the_weights_is_noticed(tmp_path, cut):
    """The card names the hash of the weights."""
    folder = save_cut_classifier(*cut, tmp_path / "model")
    weights = folder / "cut.safetensors"
    content = bytearray(weights.read_bytes())
    content[-3] ^= 1
    weights.write_bytes(bytes(content))
    with pytest.raises(RequestError):
        load_cut_classifier(folder, "cpu")


@pytest.mark.parametrize("how", ["one less", "none"])
def test_a_mask_that_names_other_filters_than_its_history_cuts_is_refused(tmp_path, cut, how):
    folder = save_cut_classifier(*cut, tmp_path / "model")
    value = json.loads((folder / "mask.json").read_text())
    if how == "one less":
        first = next(group for group in value["groups"] if len(group["cut"]) > 1)
        first["cut"] = first["cut"][:-1]
    else:
        value["groups"] = []
    (folder / "mask.json").write_text(json.dumps(value))
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

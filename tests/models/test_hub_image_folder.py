"""Image classifiers as transformers saves them: read, cut, saved and loaded again, and what is
refused."""

import json

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from engine.core.errors import RequestError
from engine.models.load_image_classifier import load_classifier, save_classifier
from engine.surgery.filters.graph import (
    agree_filters,
    cut_filters,
    filter_graph,
    prove_filter_mask_works,
    replayed,
    widths_after,
)
from engine.surgery.filters.replay import load_cut_classifier, same_weights, save_cut_classifier
from engine.surgery.record import FilterRecord, groups_of
from tests.builders import refused
from tests.classifiers.worlds import some_mask, some_pixels
from tests.tiny_images import FAMILIES, saved_by_transformers


def refusal(folder):
    return " ".join(refused(load_classifier, folder, device="cpu"))


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(one, marks=pytest.mark.slow) if one == "mobilenet_v2" else one
        for one in FAMILIES
    ],
)
def test_masked_is_cut_is_replayed_is_saved(tmp_path, family):
    whole = load_classifier(saved_by_transformers(family, tmp_path / family), device="cpu")
    assert (
        whole.classes == ("cat", "dog", "owl")
        and whole.mean == (0.5, 0.4, 0.3)
        and whole.name == family
    )
    graph = filter_graph(whole)
    prove_filter_mask_works(whole, graph)
    mask = graph.mask(some_mask(graph))
    small, history = cut_filters(whole, mask)
    assert same_weights(replayed(whole, history, mask), small)
    pixels = some_pixels(4, whole.size)
    found = agree_filters(whole, graph, mask, small, pixels)
    assert found.holds and found.max_logit_difference < 1e-4 and mask.cut
    with torch.no_grad():
        images = whole.prepared(pixels)
        assert not torch.allclose(whole.model(images), small.model(images), rtol=1e-3)
    for one, flops in ((whole, graph.flops()), (small, graph.flops(mask.keep()))):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            one.model(torch.zeros(1, 3, whole.size, whole.size))
        assert counter.get_total_flops() == flops
    record = FilterRecord(
        family,
        whole.arch,
        whole.weight_hash,
        whole.classes,
        whole.size,
        groups_of(mask),
        json.loads(json.dumps(history)),
    )
    again = load_cut_classifier(save_cut_classifier(small, record, tmp_path / "cut"), device="cpu")
    kept = load_classifier(save_classifier(whole, tmp_path / "ours"), device="cpu")
    assert same_weights(again, small) and same_weights(kept, whole) and whole.processor is not None
    for one in (again, kept):
        assert (one.processor, one.size, one.mean, one.std) == (
            whole.processor,
            whole.size,
            whole.mean,
            whole.std,
        )


def test_a_vision_transformers_units_are_heads(tmp_path):
    whole = load_classifier(saved_by_transformers("vit", tmp_path / "vit"), device="cpu")
    graph = filter_graph(whole)
    assert [width for _, width in graph.widths] == [4, 4] and whole.architecture.has_heads
    mask = graph.mask(np.array([1, 0, 1, 1, 0, 0, 1, 1]))
    small, _ = cut_filters(whole, mask)
    assert [kept for _, _, kept in widths_after(mask)] == [3, 2]
    assert [
        getattr(small.model.get_submodule(name), "num_attention_heads", 0)
        for name, _ in graph.widths
    ] == [3, 2]
    with pytest.raises(RequestError, match="It takes 16 pixels only"):
        load_classifier(tmp_path / "vit", device="cpu", size=32)
    with pytest.raises(RequestError, match="pruning history"):
        replayed(whole, [["nowhere", True, [0]]], mask)


def test_classes_of_one_name_are_told_apart(tmp_path, capfd):
    """As in ImageNet, whose two cranes every classifier of it on the hub has."""
    folder = saved_by_transformers("vit", tmp_path / "vit")
    config = json.loads((folder / "config.json").read_text())
    twice = {
        "id2label": {"0": "crane", "1": "owl", "2": "crane"},
        "label2id": {"owl": 1, "crane": 2},
    }
    (folder / "config.json").write_text(json.dumps(config | twice | {"image_size": [16, 16]}))
    found = load_classifier(folder, device="cpu")
    assert (found.classes, found.size) == (("crane", "owl", "crane (2)"), 16)
    (folder / "config.json").write_text(json.dumps(config | {"num_attention_heads": -1}))
    assert "-32 numbers wide" in refusal(folder)
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    capfd.readouterr()
    assert "lacks 16 tensors" in refusal(folder)
    assert "MISSING" not in "".join(capfd.readouterr())


@pytest.fixture
def resnet(tmp_path):
    return saved_by_transformers("resnet", tmp_path / "resnet")


def edited_by(folder, **more):
    config = json.loads((folder / "config.json").read_text()) | more
    config = {name: value for name, value in config.items() if value != "gone"}
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"problem_type": "regression"}, "no classes that exclude each other"),
        ({"label2id": {"cat": 1, "dog": 0, "owl": 2}}, "label2id that contradicts its id2label"),
        ({"num_labels": 4}, "has num_labels 4, its id2label names 3 outputs"),
        (
            {"id2label": "gone", "label2id": "gone", "num_labels": 1},
            "has one output: an audit needs",
        ),
        (
            {"id2label": {"0": "cat", "1": "dog"}, "label2id": "gone"},
            "names 2 outputs, the last layer of its weights",
        ),
        (
            {"id2label": "gone", "label2id": "gone", "num_labels": 5},
            "names 5 outputs, the last layer of its weights",
        ),
        ({"pruned_heads": {"0": [1]}}, "sets pruned_heads to"),
        (
            {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
            "is of quantised weights",
        ),
        (
            {"architecture": "resnet18", "pretrained_cfg": {}},
            "give timm/resnet18 as the model and the folder's",
        ),
    ],
)
def test_outputs_that_are_no_classes_or_contradict_each_other_are_refused(resnet, more, said):
    edited_by(resnet, problem_type="single_label_classification")
    assert load_classifier(resnet, device="cpu").classes == ("cat", "dog", "owl")
    edited_by(resnet, **more)
    assert said in refusal(resnet)


def test_names_that_transformers_gave_are_no_names(resnet):
    """LABEL_0 says nothing: such outputs are numbered, and which is which class must be said."""
    plain = {
        "id2label": {str(at): f"LABEL_{at}" for at in range(3)},
        "label2id": {f"LABEL_{at}": at for at in range(3)},
    }
    edited_by(resnet, **plain)
    found = load_classifier(resnet, device="cpu")
    assert found.classes == ("0", "1", "2") and any(
        "nobody gave their names" in note for note in found.notes
    )
    assert load_classifier(resnet, classes=["cat", "dog", "owl"], device="cpu").classes == (
        "cat",
        "dog",
        "owl",
    )
    edited_by(
        resnet, id2label={"0": "cat", "1": "dog", "2": "owl"}
    )  # as written by who names id2label only
    assert load_classifier(resnet, device="cpu").classes == ("cat", "dog", "owl")
    edited_by(resnet, id2label="gone", label2id={"owl": 2, "cat": 0, "dog": 1})
    assert load_classifier(resnet, device="cpu").classes == ("cat", "dog", "owl")


def test_files_of_weights_that_are_not_read_are_named(resnet):
    assert load_classifier(resnet, device="cpu").notes == ()
    (resnet / "pytorch_model.bin").write_bytes(b"x")
    (resnet / "ema.safetensors").write_bytes(b"x")
    found = load_classifier(resnet, device="cpu").notes
    assert found == (
        (
            "ema.safetensors and pytorch_model.bin are not read; model.safetensors is. Are they the"
            " same weights?"
        ),
    )


def edited_raw(folder, text):
    (folder / "config.json").write_text(text)
    return refusal(folder)


def test_a_damaged_config_in_a_model_card_is_said(tmp_path):
    load = saved_by_transformers("resnet", tmp_path / "resnet")
    folder = save_classifier(load_classifier(load, device="cpu"), tmp_path / "ours")
    card = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(card | {"config": {"depths": [1]}}))
    assert "cannot be built" in refusal(folder)


def test_what_is_refused(tmp_path):
    folder = saved_by_transformers("resnet", tmp_path / "resnet")
    config = json.loads((folder / "config.json").read_text())

    def edited(**more):
        (folder / "config.json").write_text(json.dumps(config | more))
        return refusal(folder)

    assert "code of its own (auto_map)" in edited(auto_map={"AutoConfig": "x.Y"})
    assert "not an image classifier that transformers knows" in edited(
        architectures=["ResNetBackbone"]
    )
    assert "family 'nobody'" in edited(model_type="nobody")
    assert "other shapes" in edited(hidden_sizes=[8, 8]) or "tensors" in edited(hidden_sizes=[8, 8])
    for more in ({"architectures": {"a": 1}}, {"architectures": 5}, {"model_type": ["resnet"]}):
        assert "not an image classifier that transformers knows" in edited(**more)
    for labels in ({"a": "x", "b": "y", "c": "z"}, {"0": ["x"], "1": "y", "2": "z"}, [1, 2, 3]):
        assert "does not name the outputs 0, 1, 2" in edited(id2label=labels)
    assert "of weights, there is room for" in edited(hidden_sizes=[10**6, 10**6])
    assert "100000 layers" in edited(depths=[50_000, 50_000])
    assert "1 channels" in edited(num_channels=1)
    assert "twice" in edited_raw(folder, '{"model_type": "resnet", "model_type": "vit"}')
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").unlink()
    plain = load_classifier(folder, device="cpu")
    assert plain.mean == (0.485, 0.456, 0.406) and plain.processor is None
    assert any("the usual mean (0.485, 0.456, 0.406) is assumed" in note for note in plain.notes)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "can run code when opened" in refusal(folder)


def test_models_of_timm_ask_for_timm(monkeypatch):
    monkeypatch.setattr("engine.models.vision.hub_folders.find_spec", lambda name: None)
    assert "package timm, which is not installed" in refusal("timm/resnet18")

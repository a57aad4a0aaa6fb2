"""Image classifiers as transformers saves them: read, cut, saved and loaded again, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from engine.core.errors import RequestError
from engine.models.load_image_classifier import load_classifier, save_classifier
from engine.surgery.filters.cut import agree_filters, cut_filters, replayed, widths_after
from engine.surgery.filters.gates import prove_filter_mask_works
from engine.surgery.filters.graph import filter_graph
from engine.surgery.filters.record import FilterRecord, groups_of
from engine.surgery.filters.replay import load_cut_classifier, same_weights, save_cut_classifier
from tests.classifiers.worlds import some_mask, some_pixels
from tests.tiny_images import FAMILIES, saved_by_transformers


def refusal(folder):
    with pytest.raises(RequestError) as caught:
        load_classifier(folder, device="cpu")
    return " ".join(str(fault) for fault in caught.value.faults)


@pytest.mark.parametrize("family", [pytest.param(one, marks=pytest.mark.slow) if one == "mobilenet_v2" else one
                                     for one in FAMILIES])  # fmt: skip
def test_masked_is_cut_is_replayed_is_saved(tmp_path, family):
    whole = load_classifier(saved_by_transformers(family, tmp_path / family), device="cpu")
    assert whole.classes == ("cat", "dog", "owl") and whole.mean == (0.5, 0.4, 0.3) and whole.name == family
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
    assert same_weights(again, small)
    assert same_weights(load_classifier(save_classifier(whole, tmp_path / "ours"), device="cpu"), whole)


def test_a_vision_transformers_units_are_heads(tmp_path):
    whole = load_classifier(saved_by_transformers("vit", tmp_path / "vit"), device="cpu")
    graph = filter_graph(whole)
    assert [width for _, width in graph.widths] == [4, 4] and whole.architecture.has_heads
    mask = graph.mask(np.array([1, 0, 1, 1, 0, 0, 1, 1]))
    small, _ = cut_filters(whole, mask)
    assert [kept for _, _, kept in widths_after(mask)] == [3, 2]
    assert [getattr(small.model.get_submodule(name), "num_attention_heads", 0) for name, _ in graph.widths] == [3, 2]
    with pytest.raises(RequestError, match="It takes 16 pixels only"):
        load_classifier(tmp_path / "vit", device="cpu", size=32)
    with pytest.raises(RequestError, match="pruning history"):
        replayed(whole, [["nowhere", True, [0]]], mask)


def test_what_is_refused(tmp_path):
    folder = saved_by_transformers("resnet", tmp_path / "resnet")
    config = json.loads((folder / "config.json").read_text())

    def edited(**more):
        (folder / "config.json").write_text(json.dumps(config | more))
        return refusal(folder)

    assert "code of its own (auto_map)" in edited(auto_map={"AutoConfig": "x.Y"})
    assert "not an image classifier that transformers knows" in edited(architectures=["ResNetBackbone"])
    assert "family 'nobody'" in edited(model_type="nobody")
    assert "other shapes" in edited(hidden_sizes=[8, 8]) or "tensors" in edited(hidden_sizes=[8, 8])
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps({"rescale_factor": 1.0}))
    assert "not by 1/255" in refusal(folder)
    (folder / "preprocessor_config.json").unlink()
    assert replace(load_classifier(folder, device="cpu")).mean == (0.485, 0.456, 0.406)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "can run code when opened" in refusal(folder)


def test_models_of_timm_ask_for_timm(monkeypatch):
    monkeypatch.setattr("engine.models.vision.timm_models.find_spec", lambda name: None)
    assert "package timm, which is not installed" in refusal("timm/resnet18")

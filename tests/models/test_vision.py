"""Architectures build, run at small sizes, and say what they are. That cut = masked stands in
tests/surgery/filters."""

import pytest
import torch
from torch import nn

from engine.models.state_dicts import fitting_architectures, skeleton
from engine.models.vision import architecture_for, architectures
from engine.models.vision.torchvision_families import TorchvisionModels, split, unpacked

import torchvision.models  # isort: skip  (after the torchvision guard)

HEADS = {
    "resnet18": "fc",
    "resnet10-w16": "fc",
    "resnet20": "linear",
    "vgg16": "classifier.6",
    "mobilenet_v2": "classifier.1",
    "efficientnet_v2_s": "classifier.1",
}


def test_option_a_is_the_published_padding():
    block = architecture_for("resnet20").build("resnet20", 10).layer2[0]
    images = torch.randn(2, 16, 8, 8)
    expected = nn.functional.pad(images[:, :, ::2, ::2], (0, 0, 0, 0, 8, 8))
    assert torch.equal(block.shortcut(images), expected)


SOME = {next((name for name in one.names), None): one for one in architectures().values()}
"""The first of each family."""


@pytest.mark.parametrize("name", SOME)
def test_every_architecture_says_what_it_is(name):
    architecture = architecture_for(name)
    with torch.device("meta"):
        model = architecture.build(name, 7)
    head = architecture.classifier(model)
    last = model.get_submodule(head)
    assert getattr(last, "out_features", getattr(last, "out_channels", 0)) == 7
    assert head == HEADS.get(name, head)
    assert architecture.min_size <= architecture.default_size
    assert len(architecture.mean) == len(architecture.std) == 3
    for label in architecture.ungated(model):
        assert isinstance(model.get_submodule(label), nn.Conv2d)
    assert (architecture.published(name) is None) != isinstance(architecture, TorchvisionModels)


@pytest.mark.parametrize("name", ["resnet20", "resnet10-w16", "mobilenet_v2"])
def test_the_smallest_size_runs_and_trains(name):
    architecture = architecture_for(name)
    torch.manual_seed(0)
    model = architecture.build(name, 2).train()
    images = torch.randn(4, 3, architecture.min_size, architecture.min_size)
    nn.functional.cross_entropy(model(images), torch.tensor([0, 1, 0, 1])).backward()
    assert all(bool(torch.isfinite(one.grad).all()) for one in model.parameters())


def test_activations_keep_zero_at_zero_except_what_feeds_a_sigmoid():
    for name in HEADS:
        architecture = architecture_for(name)
        with torch.device("meta"):
            model = architecture.build(name, 2)
        moving = set()
        for label, module in model.named_modules():
            if (
                type(module).__module__ == "torch.nn.modules.activation"
                and float(module(torch.zeros(1))) != 0.0
            ):
                moving.add(f"{label.rpartition('.')[0]}.fc2")
        assert moving == architecture.ungated(model)
    assert len(moving) == 30  # EfficientNetV2-S: one squeeze-excitation per depthwise block


def test_counts_of_parameters_are_the_published_ones():
    published = {"resnet20": 0.27e6, "resnet32": 0.46e6, "resnet44": 0.66e6, "resnet56": 0.85e6}
    for name, count in published.items():
        found = sum(one.numel() for one in architecture_for(name).build(name, 10).parameters())
        assert round(found / 1e6, 2) == pytest.approx(count / 1e6, abs=0.011)
    with torch.device("meta"):
        resnet18 = architecture_for("resnet18").build("resnet18", 1000)
    assert sum(one.numel() for one in resnet18.parameters()) == 11_689_512


def test_heads_that_only_training_uses_are_left_off():
    architecture = architecture_for("googlenet")
    assert "left off" in architecture.note
    kept = architecture.without_extras(
        {"aux1.fc1.weight": torch.zeros(1), "fc.weight": torch.zeros(1)}
    )
    assert list(kept) == ["fc.weight"]
    assert list(architecture_for("vgg11").without_extras({"a": torch.zeros(1)})) == ["a"]


# torchvision's vision transformers: the same numbers from four linear layers, and heads that can
# be cut.


def test_a_packed_attention_answers_the_same_from_its_parts():
    torch.manual_seed(0)
    model = torchvision.models.VisionTransformer(32, 8, 2, 4, 32, 48, num_classes=3).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    images, packed = (
        torch.randn(2, 3, 32, 32),
        {name: one.clone() for name, one in model.state_dict().items()},
    )
    with torch.no_grad():
        whole = model(images)
        torch.testing.assert_close(split(model)(images), whole)
        for parameter in model.parameters():
            parameter.data.zero_()
        model.load_state_dict(unpacked(packed))
        torch.testing.assert_close(model(images), whole)
    assert (
        architecture_for("vit_b_16")
        .attentions(model)[1]
        .parts[3]
        .endswith("encoder_layer_1.self_attention.out_proj")
    )


def test_published_tensors_are_recognised():
    state = {
        name: torch.empty(shape, device="meta")
        for name, shape in skeleton("vit_b_16", 5).shapes.items()
    }
    for name in [name for name in state if ".q_proj." in name]:
        parts = [state.pop(name.replace("q_proj", part)) for part in ("q_proj", "k_proj", "v_proj")]
        state[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
    assert fitting_architectures(state) == ["vit_b_16"]

"""Architectures build, run at small sizes, and can be pruned: cutting channels equals multiplying
them by zero."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from engine.core.errors import RequestError
from engine.models.vision import architecture_for, architectures
from engine.models.vision.resnets import ShortcutA, ShortcutPruner

import torch_pruning as tp  # isort: skip  (after the torchvision guard)

SIZES = {
    "resnet20": 16,
    "resnet10-w16": 32,
    "resnet18": 32,
    "vgg16": 32,
    "mobilenet_v2": 32,
    "efficientnet_v2_s": 32,
}
HEADS = {
    "resnet18": "fc",
    "resnet10-w16": "fc",
    "resnet20": "linear",
    "vgg16": "classifier.6",
    "mobilenet_v2": "classifier.1",
    "efficientnet_v2_s": "classifier.1",
}


@cache
def lively(name: str) -> nn.Module:
    """A model whose batch norms do something, so that nothing is zero by accident. In float64; copy
    before changing."""
    torch.manual_seed(0)
    model = architecture_for(name).build(name, 3).eval()
    if (
        name == "vgg16"
    ):  # its linear layers are a gigabyte in float64; small ones read the same 25,088 features
        model.classifier = nn.Sequential(nn.Linear(512 * 7 * 7, 8), nn.ReLU(), nn.Linear(8, 3))
    draw = torch.Generator().manual_seed(1)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor, low in (
                (module.weight, 0.5),
                (module.bias, -0.5),
                (module.running_mean, -0.5),
                (module.running_var, 0.5),
            ):
                tensor.data = low + torch.rand(tensor.shape, generator=draw)
    return model.double()


def graph_of(name: str, model: nn.Module) -> tp.DependencyGraph:
    example = torch.zeros(1, 3, SIZES[name], SIZES[name], dtype=torch.float64)
    pruners = architecture_for(name).customized_pruners()
    return tp.DependencyGraph().build_dependency(
        model, (example,), customized_pruners=pruners, verbose=False
    )


def roots(graph, names) -> list[str]:
    """The first convolution of every group whose filters can be cut."""
    return [
        names[group[0].dep.target.module]
        for group in graph.get_all_groups(root_module_types=[nn.Conv2d])
    ]


def gate_points(graph, group, ungated, names):
    """(module, channels) where a group's channels come to be: batch norm, a bare convolution, a
    customised module."""
    for item in group:
        module = item.dep.target.module
        follows = graph.module2node[module].outputs
        is_bare = isinstance(module, nn.Conv2d) and not any(
            isinstance(one.module, nn.BatchNorm2d) for one in follows
        )
        makes = (
            isinstance(module, nn.BatchNorm2d)
            or is_bare
            or type(module) in graph.CUSTOMIZED_PRUNERS
        )
        if (
            makes
            and graph.is_out_channel_pruning_fn(item.dep.handler)
            and names[module] not in ungated
        ):
            yield names[module], sorted(item.idxs)


def silenced(model: nn.Module, points, images: torch.Tensor) -> torch.Tensor:
    handles = []
    for name, channels in points:

        def zero(_, __, output, channels=channels):
            keep = torch.ones(output.shape[1], dtype=output.dtype)
            keep[channels] = 0.0
            return output * keep.view(1, -1, 1, 1)

        handles.append(model.get_submodule(name).register_forward_hook(zero))
    with torch.no_grad():
        out = model(images)
    for handle in handles:
        handle.remove()
    return out


def some_groups(found: list[str]) -> list[str]:
    """The first two groups, one in the middle, and the last, which the linear layers read."""
    return list(dict.fromkeys([found[0], found[1], found[len(found) // 2], found[-1]]))


@pytest.mark.parametrize("name", SIZES)
def test_cutting_channels_equals_multiplying_them_by_zero(name):
    architecture, draw = architecture_for(name), np.random.default_rng(0)
    images = torch.from_numpy(draw.standard_normal((2, 3, SIZES[name], SIZES[name])))
    dense = lively(name)
    with torch.no_grad():
        before = dense(images)
    model = copy.deepcopy(dense)
    graph = graph_of(name, model)
    names = {module: label for label, module in model.named_modules()}
    points = []
    for root in some_groups(roots(graph, names)):
        conv = model.get_submodule(root)
        channels = sorted(
            draw.choice(conv.out_channels, conv.out_channels // 3, replace=False).tolist()
        )
        group = graph.get_pruning_group(conv, tp.prune_conv_out_channels, channels)
        points += gate_points(graph, group, architecture.ungated(dense), names)
        group.prune()
        assert conv.out_channels < dense.get_submodule(root).out_channels
    with torch.no_grad():
        after = model(images)
    expected = silenced(dense, points, images)
    assert float((after - expected).abs().max()) <= 1e-5 * float(expected.abs().max())
    assert not torch.allclose(before, expected, rtol=1e-2)


def test_the_stages_of_cifar_resnets_are_pruned_apart():
    for name in ("resnet20", "resnet56"):
        model = architecture_for(name).build(name, 10)
        graph = graph_of("resnet20", model.double())
        names = {module: label for label, module in model.named_modules()}
        found = roots(graph, names)
        blocks = (int(name.removeprefix("resnet")) - 2) // 6
        inner = [f"layer{stage}.{block}.conv1" for stage in (1, 2, 3) for block in range(blocks)]
        assert set(inner) < set(found) and len(found) == len(inner) + 3
        group = graph.get_pruning_group(model.conv1, tp.prune_conv_out_channels, [0])
        touched = {names.get(item.dep.target.module, "") for item in group}
        outputs = {label for label in touched if label.endswith(("bn1", "bn2"))}
        assert outputs == {"bn1", *(f"layer1.{block}.bn2" for block in range(blocks))}


def test_gates_must_stand_on_shortcuts_too():
    """The second stage's channels come from batch norms and from the shortcut: without its gate
    they live on."""
    dense = lively("resnet20")
    model = copy.deepcopy(dense)
    graph = graph_of("resnet20", model)
    names = {module: label for label, module in model.named_modules()}
    group = graph.get_pruning_group(
        model.layer2[0].conv2, tp.prune_conv_out_channels, [10]
    )  # 10 comes from 2
    points = dict(gate_points(graph, group, frozenset(), names))
    assert points["layer2.0.shortcut"] == [10]
    group.prune()
    assert model.layer2[0].shortcut.sources == (*[-1] * 8, 0, 1, *range(3, 16), *[-1] * 8)
    images = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    with torch.no_grad():
        after = model(images)
    assert torch.allclose(after, silenced(dense, points.items(), images), rtol=1e-9)
    del points["layer2.0.shortcut"]
    assert not torch.allclose(after, silenced(dense, points.items(), images), rtol=1e-3)


def test_a_shortcut_by_hand():
    shortcut = ShortcutA(2, (-1, 0, 1, -1))
    images = torch.arange(2 * 4 * 4.0).view(1, 2, 4, 4)
    out = shortcut(images)
    assert out[0, 1].tolist() == [[0.0, 2.0], [8.0, 10.0]] and out[0, 2].tolist() == [
        [16.0, 18.0],
        [24.0, 26.0],
    ]
    assert not out[0, [0, 3]].any() and not shortcut.state_dict()
    pruner = ShortcutPruner()
    pruner.prune_out_channels(shortcut, [0])
    assert (shortcut.sources, shortcut.in_channels, shortcut.out_channels) == ((0, 1, -1), 2, 3)
    pruner.prune_in_channels(shortcut, [0])
    assert (shortcut.sources, shortcut.in_channels, shortcut.out_channels) == ((-1, 0, -1), 1, 3)
    assert torch.equal(shortcut(images[:, 1:])[0, 1], images[0, 1, ::2, ::2])
    assert (pruner.get_in_channels(shortcut), pruner.get_out_channels(shortcut)) == (1, 3)
    with pytest.raises(ValueError, match="outside"):
        ShortcutA(2, (2,))


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
    published = architecture.published(name)
    assert (published is None) == (name in ("resnet10", "resnet10-w16", "resnet20"))


@pytest.mark.parametrize("name", ["resnet20", "resnet10-w16", "mobilenet_v2"])
def test_the_smallest_size_runs_and_trains(name):
    architecture = architecture_for(name)
    torch.manual_seed(0)
    model = architecture.build(name, 2).train()
    images = torch.randn(4, 3, architecture.min_size, architecture.min_size)
    nn.functional.cross_entropy(model(images), torch.tensor([0, 1, 0, 1])).backward()
    assert all(bool(torch.isfinite(one.grad).all()) for one in model.parameters())


def test_activations_keep_zero_at_zero_except_what_feeds_a_sigmoid():
    for name in SIZES:
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


def test_an_unknown_architecture_names_the_known_ones():
    with pytest.raises(RequestError, match="resnet57.*Known: resnet5.*less like it"):
        architecture_for("resnet57")


def test_regnets_are_those_of_torchvision():
    """Their settings stand in our file, because torchvision's builders cannot build without
    memory."""
    import torchvision.models

    for name in ("regnet_x_400mf", "regnet_y_400mf"):
        ours = architecture_for(name).build(name, 3).state_dict()
        theirs = torchvision.models.get_model(name, num_classes=3).state_dict()
        assert {key: value.shape for key, value in ours.items()} == {
            key: value.shape for key, value in theirs.items()
        }


def test_heads_that_only_training_uses_are_left_off():
    architecture = architecture_for("googlenet")
    assert "left off" in architecture.note
    kept = architecture.without_extras(
        {"aux1.fc1.weight": torch.zeros(1), "fc.weight": torch.zeros(1)}
    )
    assert list(kept) == ["fc.weight"]
    assert list(architecture_for("vgg11").without_extras({"a": torch.zeros(1)})) == ["a"]

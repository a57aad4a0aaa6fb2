"""ResNets that torchvision does not have: small ones for images of 32 pixels, and ResNet-10.

CIFAR ResNets have option-A shortcuts (He et al. 2016, section 4.2) and tensors named as in
akamaster/pytorch_resnet_cifar10. Such a shortcut has no weights: it takes every second pixel and
fills the new channels with zeros. Here it is a module of its own that knows where each of its
channels comes from, so that the three stages can be pruned apart from each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Guards the torchvision import, which Torch-Pruning asks for.
from engine.models.vision.base import Architecture

import torch_pruning as tp  # isort: skip
from torchvision.models.resnet import BasicBlock, ResNet  # isort: skip

WIDTHS = (16, 32, 64)
"""Channels of the three stages of a CIFAR ResNet."""


class ResNet10(Architecture):
    """One block of torchvision's in each stage; there are no published weights."""

    names = ("resnet10",)
    is_proved = True

    def build(self, name: str, n_classes: int) -> nn.Module:
        return ResNet(BasicBlock, [1, 1, 1, 1], num_classes=n_classes)


class SmallResNet(Architecture):
    """ResNet-10, 16 channels wide at the start, for small images: fast enough to be trained on two
    CPU cores."""

    names = ("resnet10-w16",)
    is_proved = True
    default_size = 32
    min_size = 16

    def build(self, name: str, n_classes: int) -> nn.Module:
        return NarrowResNet(16, n_classes)


class NarrowResNet(nn.Module):
    """ResNet-10 with stages of w, 2w, 4w and 8w channels and a 3x3 stem of stride 2 without
    pooling.

    32 pixels leave the stem as 16, the last stage as 2. Stride 1 in the stem would cost four times
    as much.
    """

    def __init__(self, width: int, n_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = _narrow_stage(width, width, 1)
        self.layer2 = _narrow_stage(width, 2 * width, 2)
        self.layer3 = _narrow_stage(2 * width, 4 * width, 2)
        self.layer4 = _narrow_stage(4 * width, 8 * width, 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8 * width, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """images [batch, 3, height, width] -> logits [batch, classes]."""
        found = self.relu(self.bn1(self.conv1(images)))
        found = self.layer4(self.layer3(self.layer2(self.layer1(found))))
        return self.fc(self.avgpool(found).flatten(1))


def _narrow_stage(into: int, out: int, stride: int) -> nn.Sequential:
    shortcut = None
    if into != out:
        conv = nn.Conv2d(into, out, 1, stride=stride, bias=False)
        shortcut = nn.Sequential(conv, nn.BatchNorm2d(out))
    return nn.Sequential(BasicBlock(into, out, stride, shortcut))


class CifarResNet(Architecture):
    """Three stages of n blocks each, 6n+2 layers."""

    names = ("resnet20", "resnet32", "resnet44", "resnet56")
    is_proved = True
    default_size = 32
    min_size = 8

    def build(self, name: str, n_classes: int) -> nn.Module:
        layers = int(name.removeprefix("resnet"))
        return ResNetA((layers - 2) // 6, n_classes)

    def customized_pruners(self) -> dict[type[nn.Module], Any]:
        return {ShortcutA: ShortcutPruner()}


class ShortcutA(nn.Module):
    """Every second pixel; output channel i is input channel sources[i], or zeros where that is -1.
    No parameters.

    Example: ShortcutA(2, (-1, 0, 1, -1)) on [n, 2, 8, 8] gives [n, 4, 4, 4], channels 0 and 3 zero.
    """

    index: Tensor

    def __init__(self, in_channels: int, sources: Sequence[int]) -> None:
        super().__init__()
        self.rewire(in_channels, sources)

    def rewire(self, in_channels: int, sources: Sequence[int]) -> None:
        """Set, in place, how many channels come in and where each output channel is taken from."""
        self.in_channels = int(in_channels)
        self.sources = tuple(int(source) for source in sources)
        if any(not -1 <= source < self.in_channels for source in self.sources):
            raise ValueError(
                f"a source of {self.sources} is outside {self.in_channels} input channels"
            )
        places = [self.in_channels if source < 0 else source for source in self.sources]
        device = self.index.device if "index" in self._buffers else "cpu"
        # Not in the state dict, so published weights load strictly; "cpu" also where models are
        # built without memory.
        self.register_buffer(
            "index", torch.tensor(places, dtype=torch.long, device=device), persistent=False
        )

    @property
    def out_channels(self) -> int:
        return len(self.sources)

    def forward(self, images: Tensor) -> Tensor:
        """images [batch, in_channels, h, w] -> [batch, out_channels, ceil(h / 2), ceil(w / 2)]."""
        with_zeros = F.pad(images[:, :, ::2, ::2], (0, 0, 0, 0, 0, 1))
        return with_zeros.index_select(1, self.index)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}"


class ShortcutPruner(tp.pruner.function.BasePruningFunc):
    """Tells Torch-Pruning that the inputs and the outputs of a shortcut can be pruned
    independently."""

    TARGET_MODULES = ShortcutA

    def prune_out_channels(self, layer: ShortcutA, idxs: Sequence[int]) -> ShortcutA:
        """Drop output channels."""
        gone = set(idxs)
        layer.rewire(
            layer.in_channels, [source for at, source in enumerate(layer.sources) if at not in gone]
        )
        return layer

    def prune_in_channels(self, layer: ShortcutA, idxs: Sequence[int]) -> ShortcutA:
        """Outputs that came from a removed input become zeros; the other inputs are counted
        anew."""
        kept = sorted(set(range(layer.in_channels)) - set(idxs))
        new = {old: at for at, old in enumerate(kept)}
        layer.rewire(len(kept), [new.get(source, -1) for source in layer.sources])
        return layer

    def get_out_channels(self, layer: ShortcutA) -> int:
        return layer.out_channels

    def get_in_channels(self, layer: ShortcutA) -> int:
        return layer.in_channels


class BlockA(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU()
        before = (out - into) // 2
        sources = (*[-1] * before, *range(into), *[-1] * (out - into - before))
        self.shortcut = nn.Identity() if stride == 1 else ShortcutA(into, sources)

    def forward(self, images: Tensor) -> Tensor:
        """images [batch, into, h, w] -> [batch, out, ceil(h / stride), ceil(w / stride)]."""
        found = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(images)))))
        return self.relu(found + self.shortcut(images))


class ResNetA(nn.Module):
    """The whole network: stem, three stages of `blocks` blocks, mean over places, linear layer."""

    def __init__(self, blocks: int, n_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTHS[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTHS[0])
        self.relu = nn.ReLU()
        self.layer1 = _stage(WIDTHS[0], WIDTHS[0], blocks, 1)
        self.layer2 = _stage(WIDTHS[0], WIDTHS[1], blocks, 2)
        self.layer3 = _stage(WIDTHS[1], WIDTHS[2], blocks, 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.linear = nn.Linear(WIDTHS[2], n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, images: Tensor) -> Tensor:
        """images [batch, 3, height, width] -> logits [batch, classes]."""
        found = self.relu(self.bn1(self.conv1(images)))
        found = self.layer3(self.layer2(self.layer1(found)))
        return self.linear(self.avgpool(found).flatten(1))


def _stage(into: int, out: int, blocks: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        BlockA(into, out, stride), *(BlockA(out, out, 1) for _ in range(blocks - 1))
    )

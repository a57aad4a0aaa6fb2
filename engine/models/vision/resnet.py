"""ResNet-10, 18 and 34 of torchvision's blocks (He et al. 2016), and a narrow ResNet-10 for images
of 32 pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from engine.models.vision.base import Architecture  # guards the torchvision import

import torchvision.models  # isort: skip
from torchvision.models.resnet import BasicBlock, ResNet  # isort: skip

if TYPE_CHECKING:
    from torchvision.models import WeightsEnum

BLOCKS = {"resnet10": (1, 1, 1, 1), "resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3)}
"""Blocks in each of the four stages."""


class ImageNetResNet(Architecture):
    """As torchvision builds them; ResNet-10 (one block per stage) has no published weights."""

    names = tuple(BLOCKS)
    is_proved = True

    def build(self, name: str, n_classes: int) -> nn.Module:
        return ResNet(BasicBlock, list(BLOCKS[name]), num_classes=n_classes)

    def published(self, name: str) -> WeightsEnum | None:
        weights = {
            "resnet18": torchvision.models.ResNet18_Weights.IMAGENET1K_V1,
            "resnet34": torchvision.models.ResNet34_Weights.IMAGENET1K_V1,
        }
        return weights.get(name)


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
        self.layer1 = _stage(width, width, 1)
        self.layer2 = _stage(width, 2 * width, 2)
        self.layer3 = _stage(2 * width, 4 * width, 2)
        self.layer4 = _stage(4 * width, 8 * width, 2)
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


def _stage(into: int, out: int, stride: int) -> nn.Sequential:
    shortcut = None
    if stride != 1 or into != out:
        shortcut = nn.Sequential(
            nn.Conv2d(into, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out)
        )
    return nn.Sequential(BasicBlock(into, out, stride, shortcut))

"""VGG-16 as torchvision builds it, without batch norm (Simonyan & Zisserman 2015)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from engine.models.vision.base import Architecture  # guards the torchvision import

import torchvision.models  # isort: skip

if TYPE_CHECKING:
    from torchvision.models import WeightsEnum


class Vgg(Architecture):
    """Its two wide linear layers hold most of its parameters, for every size of images."""

    names = ("vgg16",)
    is_proved = True

    def build(self, name: str, n_classes: int) -> nn.Module:
        return torchvision.models.vgg16(num_classes=n_classes)

    def published(self, name: str) -> WeightsEnum | None:
        return torchvision.models.VGG16_Weights.IMAGENET1K_V1

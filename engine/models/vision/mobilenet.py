"""MobileNetV2 as torchvision builds it (Sandler et al. 2018)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from engine.models.vision.base import Architecture  # guards the torchvision import

import torchvision.models  # isort: skip

if TYPE_CHECKING:
    from torchvision.models import WeightsEnum


class MobileNet(Architecture):
    """Inverted bottlenecks around depthwise convolutions."""

    names = ("mobilenet_v2",)
    is_proved = True

    def build(self, name: str, n_classes: int) -> nn.Module:
        return torchvision.models.mobilenet_v2(num_classes=n_classes)

    def published(self, name: str) -> WeightsEnum | None:
        return torchvision.models.MobileNet_V2_Weights.IMAGENET1K_V2

"""EfficientNetV2-S and M as torchvision builds them (Tan & Le 2021)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from engine.models.vision.base import Architecture  # guards the torchvision import

import torchvision.models  # isort: skip
from torchvision.ops import SqueezeExcitation  # isort: skip

if TYPE_CHECKING:
    from torchvision.models import WeightsEnum


class EfficientNetV2(Architecture):
    """Inverted bottlenecks, from the fourth stage on depthwise and with squeeze-excitation."""

    names = ("efficientnet_v2_m", "efficientnet_v2_s")
    mark = "features.1.0.block.0.0.weight"
    is_proved = True

    def build(self, name: str, n_classes: int) -> nn.Module:
        return getattr(torchvision.models, name)(num_classes=n_classes)

    def published(self, name: str) -> WeightsEnum | None:
        weights = {
            "efficientnet_v2_m": torchvision.models.EfficientNet_V2_M_Weights.IMAGENET1K_V1,
            "efficientnet_v2_s": torchvision.models.EfficientNet_V2_S_Weights.IMAGENET1K_V1,
        }
        return weights[name]

    def ungated(self, model: nn.Module) -> frozenset[str]:
        """The second convolution of every squeeze-excitation: it feeds the sigmoid that scales the
        channels."""
        found = (
            name for name, module in model.named_modules() if isinstance(module, SqueezeExcitation)
        )
        return frozenset(f"{name}.fc2" for name in found)

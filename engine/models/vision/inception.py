"""GoogLeNet and Inception v3 as torchvision builds them (Szegedy et al. 2014, 2015), without their
auxiliary heads.

torchvision renormalises images for their published weights, from ImageNet's mean and deviation to
one half each. Here one half each is their mean and deviation, which is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from engine.models.vision.base import Architecture  # guards the torchvision import

import torchvision.models  # isort: skip

if TYPE_CHECKING:
    from torchvision.models import WeightsEnum

_HALF = (0.5, 0.5, 0.5)


class GoogLeNet(Architecture):
    """Branches side by side, put together channel by channel."""

    names: tuple[str, ...] = ("googlenet",)
    mark = "inception3a.branch1.conv.weight"
    mean = std = _HALF
    note = "Its auxiliary heads, which only training uses, are left off."
    left_off: tuple[str, ...] = ("aux1.", "aux2.")

    def build(self, name: str, n_classes: int) -> nn.Module:
        return torchvision.models.get_model(
            name, num_classes=n_classes, aux_logits=False, init_weights=True
        )

    def published(self, name: str) -> WeightsEnum | None:
        return torchvision.models.get_model_weights(name).IMAGENET1K_V1


class Inception3(GoogLeNet):
    """Made for 299 pixels; below 75 nothing is left of the image."""

    names = ("inception_v3",)
    mark = "Mixed_5b.branch1x1.conv.weight"
    default_size = 299
    min_size = 75
    left_off = ("AuxLogits.",)

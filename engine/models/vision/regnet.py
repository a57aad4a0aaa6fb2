"""RegNet X and Y as torchvision builds them (Radosavovic et al. 2020); Y has squeeze-excitation.

torchvision's builders compute widths with tensors, which a build without memory for weights (device
"meta") cannot, so the published settings stand here. The grouped convolution of a block is left
whole; what it leaves to cut are the channels of the stages.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import nn

from engine.models.vision.torchvision_cnns import TorchvisionModels  # guards the torchvision import

import torchvision.models  # isort: skip
from torchvision.models.regnet import BlockParams, RegNet  # isort: skip

if TYPE_CHECKING:
    from torchvision.models import WeightsEnum

# name -> depth, w_0, w_a, w_m, width of a group of channels
SETTINGS: dict[str, tuple[int, int, float, float, int]] = {
    "regnet_x_400mf": (22, 24, 24.48, 2.54, 16),
    "regnet_x_800mf": (16, 56, 35.73, 2.28, 16),
    "regnet_x_1_6gf": (18, 80, 34.01, 2.25, 24),
    "regnet_x_3_2gf": (25, 88, 26.31, 2.25, 48),
    "regnet_x_8gf": (23, 80, 49.56, 2.88, 120),
    "regnet_x_16gf": (22, 216, 55.59, 2.1, 128),
    "regnet_x_32gf": (23, 320, 69.86, 2.0, 168),
    "regnet_y_400mf": (16, 48, 27.89, 2.09, 8),
    "regnet_y_800mf": (14, 56, 38.84, 2.4, 16),
    "regnet_y_1_6gf": (27, 48, 20.71, 2.65, 24),
    "regnet_y_3_2gf": (21, 80, 42.63, 2.66, 24),
    "regnet_y_8gf": (17, 192, 76.82, 2.19, 56),
    "regnet_y_16gf": (18, 200, 106.23, 2.48, 112),
    "regnet_y_32gf": (20, 232, 115.89, 2.53, 232),
}


class RegNets(TorchvisionModels):
    """All but Y-128GF, whose weights come under another licence only."""

    names = tuple(SETTINGS)
    mark = "stem.0.weight"

    def build(self, name: str, n_classes: int) -> nn.Module:
        depth, w_0, w_a, w_m, group = SETTINGS[name]
        ratio = 0.25 if name.startswith("regnet_y") else None
        with torch.device("cpu"):
            shape = BlockParams.from_init_params(depth, w_0, w_a, w_m, group, se_ratio=ratio)
        norm = partial(nn.BatchNorm2d, eps=1e-5, momentum=0.1)
        return RegNet(shape, num_classes=n_classes, norm_layer=norm)

    def published(self, name: str) -> WeightsEnum | None:
        return torchvision.models.get_model_weights(name).IMAGENET1K_V1

"""ShuffleNetV2 as torchvision builds it (Ma et al. 2018).

Its blocks halve, join and shuffle channels, which Torch-Pruning cannot follow: cutting a channel
that leaves a block would move others from one half to the other. Those channels are left whole.
What is cut are the channels inside the blocks and those of the last convolution, so the model is
shown to Torch-Pruning block by block.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from engine.models.vision.torchvision_cnns import TorchvisionModels  # guards the torchvision import

from torchvision.models.shufflenetv2 import channel_shuffle  # isort: skip


class ShuffleNet(TorchvisionModels):
    """Four widths."""

    names = ("shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x1_5", "shufflenet_v2_x2_0")
    mark = "stage2.0.branch1.0.weight"

    def read(self, model: Any, images: Tensor) -> Any:
        """The logits, and what leaves the stem and every branch: outputs are never cut."""
        found = [model.maxpool(model.conv1(images))]
        for block in (*model.stage2, *model.stage3, *model.stage4):
            into = channel_shuffle(torch.cat(found[-2:], dim=1), 2) if len(found) > 1 else found[0]
            into = into.detach()
            one, two = into.chunk(2, dim=1) if block.stride == 1 else (block.branch1(into), into)
            found += [one, block.branch2(two)]
        last = channel_shuffle(torch.cat(found[-2:], dim=1), 2).detach()
        logits = model.fc(model.conv5(last).mean([2, 3]))
        return [logits, *(one for one in found if one.grad_fn is not None)]

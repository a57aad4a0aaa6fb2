"""ConvNeXt as torchvision builds it (Liu et al. 2022).

The channels that run through a stage pass a LayerNorm over all of them: cutting one changes the
others, so those convolutions are left whole. The 4 times wider layer inside each block is cut: a
pointwise convolution, which torchvision writes as a linear layer on [batch, height, width,
channels].
"""

from __future__ import annotations

from torch import nn

from engine.models.vision.torchvision_cnns import TorchvisionModels  # guards the torchvision import

from torchvision.models.convnext import CNBlock  # isort: skip


class ConvNext(TorchvisionModels):
    """Four sizes."""

    names = ("convnext_tiny", "convnext_small", "convnext_base", "convnext_large")
    mark = "features.1.0.layer_scale"

    def pointwise(self, model: nn.Module) -> frozenset[str]:
        """The first linear layer of every block: 4 times as wide as the block."""
        return frozenset(
            f"{name}.block.3"
            for name, module in model.named_modules()
            if isinstance(module, CNBlock)
        )

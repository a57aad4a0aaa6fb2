"""The CNN classifiers of torchvision that differ in nothing an audit must know: built by name,
weights by name.

ResNet-50 and deeper, ResNeXt and Wide ResNet, VGG with and without batch norm, AlexNet, DenseNet,
MobileNetV3, MNASNet, EfficientNet. Which of their groups can be cut is proved on each model
(surgery/filters/safe.py); grouped convolutions (ResNeXt) are left whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from engine.models.vision.base import Architecture  # guards the torchvision import

import torchvision.models  # isort: skip
from torchvision.ops import SqueezeExcitation  # isort: skip

if TYPE_CHECKING:
    from torchvision.models import WeightsEnum


class TorchvisionModels(Architecture):
    """One torchvision builder per name."""

    names: tuple[str, ...] = ()

    def build(self, name: str, n_classes: int) -> nn.Module:
        return torchvision.models.get_model(name, num_classes=n_classes)

    def published(self, name: str) -> WeightsEnum | None:
        return getattr(torchvision.models.get_model_weights(name), "IMAGENET1K_V1", None)

    def ungated(self, model: nn.Module) -> frozenset[str]:
        """The second convolution of every squeeze-excitation: it feeds the sigmoid that scales the
        channels."""
        found = (
            name for name, module in model.named_modules() if isinstance(module, SqueezeExcitation)
        )
        return frozenset(f"{name}.fc2" for name in found)


class DeepResNet(TorchvisionModels):
    """Bottleneck blocks: ResNet, ResNeXt, Wide ResNet."""

    names = (
        *(
            "resnet50",
            "resnet101",
            "resnet152",
            "resnext50_32x4d",
            "resnext101_32x8d",
            "resnext101_64x4d",
        ),
        *("wide_resnet50_2", "wide_resnet101_2"),
    )
    mark = "layer1.0.conv3.weight"


class OtherVgg(TorchvisionModels):
    """VGG but VGG-16, which stands in a file of its own."""

    names = ("vgg11", "vgg13", "vgg19", "vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn")
    mark = "classifier.6.weight"


class DenseNet(TorchvisionModels):
    """Each layer reads all before it, put side by side; batch norm stands before its
    convolution."""

    names = ("densenet121", "densenet161", "densenet169", "densenet201")
    mark = "features.denseblock1.denselayer1.norm1.weight"


class MobileNetV3(TorchvisionModels):
    """Inverted bottlenecks with squeeze-excitation and hard swish, which keeps zero at zero."""

    names = ("mobilenet_v3_small", "mobilenet_v3_large")
    mark = "features.1.block.0.0.weight"


class MnasNet(TorchvisionModels):
    """Inverted bottlenecks."""

    names = ("mnasnet0_5", "mnasnet0_75", "mnasnet1_0", "mnasnet1_3")
    mark = "layers.0.weight"


class EfficientNet(TorchvisionModels):
    """The first version, and the largest of the second."""

    names = (*(f"efficientnet_b{size}" for size in range(8)), "efficientnet_v2_l")
    mark = "features.1.0.block.0.0.weight"


class AlexNet(TorchvisionModels):
    """Its poolings and its stem of stride 4 need 63 pixels."""

    names = ("alexnet",)
    min_size = 63
    mark = "classifier.6.weight"


class SqueezeNet(TorchvisionModels):
    """It ends in a convolution over places, whose outputs are the classes, and no linear layer."""

    names = ("squeezenet1_0", "squeezenet1_1")
    mark = "features.3.squeeze.weight"

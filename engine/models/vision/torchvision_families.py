"""Image classifiers of torchvision, built by name, with published weights: one family, one class.

Which of their groups can be cut is proved on each model (surgery/filters/graph.py) unless tests
prove it; grouped convolutions (ResNeXt) are left whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.models.vision.base import Architecture, Attention  # guards the torchvision import

import torchvision.models  # isort: skip
from torchvision.models.convnext import CNBlock  # isort: skip
from torchvision.models.regnet import BlockParams  # isort: skip
from torchvision.models.shufflenetv2 import channel_shuffle  # isort: skip
from torchvision.ops import SqueezeExcitation  # isort: skip

if TYPE_CHECKING:
    from torchvision.models import WeightsEnum


def _within(model: nn.Module, kind: type[nn.Module], part: str) -> frozenset[str]:
    """Names of a part of every module of one kind."""
    modules = model.named_modules()
    return frozenset(f"{name}.{part}" for name, one in modules if isinstance(one, kind))


class TorchvisionModels(Architecture):
    """One torchvision builder per name."""

    names: tuple[str, ...] = ()
    weights = "IMAGENET1K_V1"
    """Which of the published weights are taken."""

    def build(self, name: str, n_classes: int) -> nn.Module:
        return torchvision.models.get_model(name, num_classes=n_classes)

    def published(self, name: str) -> WeightsEnum | None:
        return getattr(torchvision.models.get_model_weights(name), self.weights, None)

    def ungated(self, model: nn.Module) -> frozenset[str]:
        """The second convolution of every squeeze-excitation: it feeds the sigmoid that scales the
        channels."""
        return _within(model, SqueezeExcitation, "fc2")


class ResNet(TorchvisionModels):
    """Blocks of two convolutions (He et al. 2016)."""

    names = ("resnet18", "resnet34")
    is_proved = True


class DeepResNet(TorchvisionModels):
    """Bottleneck blocks: ResNet, ResNeXt, Wide ResNet."""

    names = (
        "resnet50",
        "resnet101",
        "resnet152",
        "resnext50_32x4d",
        "resnext101_32x8d",
        "resnext101_64x4d",
        "wide_resnet50_2",
        "wide_resnet101_2",
    )


class Vgg16(TorchvisionModels):
    """Without batch norm (Simonyan & Zisserman 2015). Its two wide linear layers hold most of its
    parameters, for every size of images."""

    names = ("vgg16",)
    is_proved = True


class OtherVgg(TorchvisionModels):
    """Deeper, less deep, or with batch norm."""

    names = ("vgg11", "vgg13", "vgg19", "vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn")


class DenseNet(TorchvisionModels):
    """Each layer reads all before it, put side by side; batch norm stands before its
    convolution."""

    names = ("densenet121", "densenet161", "densenet169", "densenet201")


class MobileNetV2(TorchvisionModels):
    """Inverted bottlenecks around depthwise convolutions (Sandler et al. 2018)."""

    names = ("mobilenet_v2",)
    is_proved = True
    weights = "IMAGENET1K_V2"


class MobileNetV3(TorchvisionModels):
    """Inverted bottlenecks with squeeze-excitation and hard swish, which keeps zero at zero."""

    names = ("mobilenet_v3_small", "mobilenet_v3_large")


class MnasNet(TorchvisionModels):
    """Inverted bottlenecks."""

    names = ("mnasnet0_5", "mnasnet0_75", "mnasnet1_0", "mnasnet1_3")


class EfficientNet(TorchvisionModels):
    """The first version, and the largest of the second."""

    names = (*(f"efficientnet_b{size}" for size in range(8)), "efficientnet_v2_l")


class EfficientNetV2(EfficientNet):
    """Inverted bottlenecks, from the fourth stage on depthwise and with squeeze-excitation (Tan &
    Le 2021)."""

    names = ("efficientnet_v2_m", "efficientnet_v2_s")
    is_proved = True


class AlexNet(TorchvisionModels):
    """Its poolings and its stem of stride 4 need 63 pixels."""

    names = ("alexnet",)
    min_size = 63


class SqueezeNet(TorchvisionModels):
    """It ends in a convolution over places, whose outputs are the classes, and no linear layer."""

    names = ("squeezenet1_0", "squeezenet1_1")


class GoogLeNet(TorchvisionModels):
    """Branches side by side, put together channel by channel (Szegedy et al. 2014), without the
    auxiliary heads.

    torchvision renormalises images for the published weights, from ImageNet's mean and deviation to
    one half each. Here one half each is their mean and deviation, which is the same.
    """

    names = ("googlenet",)
    mean = std = (0.5, 0.5, 0.5)
    note = "Its auxiliary heads, which only training uses, are left off."
    left_off: tuple[str, ...] = ("aux1.", "aux2.")

    def build(self, name: str, n_classes: int) -> nn.Module:
        return torchvision.models.get_model(
            name, num_classes=n_classes, aux_logits=False, init_weights=True
        )


class Inception3(GoogLeNet):
    """Made for 299 pixels; below 75 nothing is left of the image (Szegedy et al. 2015)."""

    names = ("inception_v3",)
    default_size = 299
    min_size = 75
    left_off = ("AuxLogits.",)


class ConvNext(TorchvisionModels):
    """Four sizes (Liu et al. 2022).

    The channels that run through a stage pass a LayerNorm over all of them: cutting one changes the
    others, so those convolutions are left whole. The 4 times wider layer inside each block is cut:
    a pointwise convolution, which torchvision writes as a linear layer on [batch, height, width,
    channels].
    """

    names = ("convnext_tiny", "convnext_small", "convnext_base", "convnext_large")

    def pointwise(self, model: nn.Module) -> frozenset[str]:
        """The first linear layer of every block: 4 times as wide as the block."""
        return _within(model, CNBlock, "block.3")


class ShuffleNet(TorchvisionModels):
    """Four widths (Ma et al. 2018).

    Its blocks halve, join and shuffle channels, which Torch-Pruning cannot follow: cutting a
    channel that leaves a block would move others from one half to the other. Those channels are
    left whole. What is cut are the channels inside the blocks and those of the last convolution, so
    the model is shown to Torch-Pruning block by block.
    """

    names = ("shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x1_5", "shufflenet_v2_x2_0")

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


_block_params = BlockParams.from_init_params


def _with_numbers(**settings: Any) -> BlockParams:
    """A RegNet's widths, which torchvision computes with tensors: with numbers also where a model
    is built without memory for weights (device "meta")."""
    with torch.device("cpu"):
        return _block_params(**settings)


BlockParams.from_init_params = _with_numbers  # type: ignore[method-assign, assignment]


class RegNets(TorchvisionModels):
    """RegNet X and Y (Radosavovic et al. 2020), all but Y-128GF, whose weights come under another
    licence only; Y has squeeze-excitation.

    The grouped convolution of a block is left whole; what it leaves to cut are the channels of the
    stages.
    """

    names = tuple(
        f"regnet_{kind}_{size}"
        for kind in "xy"
        for size in ("400mf", "800mf", "1_6gf", "3_2gf", "8gf", "16gf", "32gf")
    )


_PACKED = "self_attention.in_proj_"
_PARTS = ("q_proj", "k_proj", "v_proj", "out_proj")


class SplitAttention(nn.Module):
    """nn.MultiheadAttention over one input [batch, tokens, width], as four linear layers.

    torchvision packs queries, keys and values into one tensor and never calls the layers of its
    attention, so that nothing could be silenced in it.
    """

    def __init__(self, whole: nn.MultiheadAttention) -> None:
        super().__init__()
        self.head_dim, width = whole.head_dim, whole.embed_dim
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))
        self.out_proj = nn.Linear(width, width)
        state = {f"self_attention.{name}": one for name, one in whole.state_dict().items()}
        own = {name.removeprefix("self_attention."): one for name, one in unpacked(state).items()}
        self.load_state_dict(own)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, need_weights: bool = False
    ) -> tuple[Tensor, None]:
        """As torchvision's blocks call it: the three are one tensor."""
        parts = (self.q_proj(query), self.k_proj(key), self.v_proj(value))
        q, k, v = (part.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for part in parts)
        heads = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.out_proj(heads), None


class TorchvisionViT(TorchvisionModels):
    """Patches of 14, 16 or 32 pixels; images of one size only, for every place has numbers of its
    own. Their units are heads; weight files come as published (packed) or as saved here."""

    names = ("vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32", "vit_h_14")
    min_size = 224
    is_fixed = has_heads = True

    def build(self, name: str, n_classes: int) -> nn.Module:
        return split(super().build(name, n_classes))

    def attentions(self, model: nn.Module) -> tuple[Attention, ...]:
        return tuple(
            Attention(name, module.head_dim, tuple(f"{name}.{part}" for part in _PARTS))
            for name, module in model.named_modules()
            if isinstance(module, SplitAttention)
        )

    def renamed(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        return unpacked(state)


def split(model: nn.Module) -> nn.Module:
    """A model of torchvision, in place, whose attentions are linear layers."""
    for module in list(model.modules()):
        whole = getattr(module, "self_attention", None)
        if isinstance(whole, nn.MultiheadAttention):
            module.self_attention = SplitAttention(whole)
    return model


def unpacked(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by name, packed queries, keys and values taken apart."""
    found = {}
    for name, tensor in state.items():
        before, packed, kind = name.partition(_PACKED)
        if not packed or tensor.shape[0] % 3:
            found[name] = tensor
            continue
        for part, rows in zip(_PARTS, torch.chunk(tensor, 3), strict=False):
            found[f"{before}self_attention.{part}.{kind}"] = rows.contiguous()
    return found

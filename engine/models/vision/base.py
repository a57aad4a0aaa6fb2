"""What PruneAudit must know about an image classifier: how to build it, where its head is, what
must not be gated.

A model takes float images [batch, 3, height, width], normalised with the architecture's mean and
standard deviation, and returns logits [batch, classes]. Height and width are free from `min_size`
on.

A *gate* multiplies a channel after its batch norm (after the convolution where none follows), and
after the modules of `customized_pruners`, which hand channels on by themselves. Gates of 0 then
equal cutting the channels, because every activation here keeps zero at zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from torch import Tensor, nn

from engine.models import runtime  # noqa: F401  (before torchvision)

if TYPE_CHECKING:
    from torchvision.models import WeightsEnum

Colour = tuple[float, float, float]
"""One number each for red, green and blue."""


@dataclass(frozen=True)
class Attention:
    """An attention layer whose heads can be cut. parts: names of its linear layers for q, k, v and
    output."""

    name: str
    head_dim: int
    parts: tuple[str, ...]


class Architecture(ABC):
    """One family. Subclasses are final; everything that does not differ is here."""

    names: tuple[str, ...]
    """Its models, e.g. resnet18 and resnet34."""
    default_size: int = 224
    """Side of the images it was made for, in pixels."""
    min_size: int = 32
    mean: Colour = (0.485, 0.456, 0.406)
    """Of ImageNet's training images in [0, 1]; the CIFAR weights of akamaster's repository use it
    too."""
    std: Colour = (0.229, 0.224, 0.225)
    is_fixed: bool = False
    """Whether its models take images of `default_size` only."""
    has_heads: bool = False
    """Whether its units are attention heads, not filters."""
    note: str = ""
    """What a screen must say of its models."""
    left_off: tuple[str, ...] = ()
    """How tensors of weight files begin that its models go without, such as heads for training
    only."""
    is_proved: bool = False
    """Whether tests prove that every group of its models can be cut; else each model proves it
    (surgery/filters/graph.py)."""

    @abstractmethod
    def build(self, name: str, n_classes: int) -> nn.Module:
        """A new model with random weights from torch's global generator, which the caller seeds."""

    def published(self, name: str) -> WeightsEnum | None:
        """torchvision's ImageNet weights of this model, or None where there are none."""
        return None

    @final
    def without_extras(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by the model's names but for those of `left_off`."""
        kept = {
            name: tensor
            for name, tensor in state.items()
            if not name.startswith(self.left_off or ("\0",))
        }
        return self.renamed(kept)

    def renamed(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by the model's names, where published files have others."""
        return state

    def classifier(self, model: nn.Module) -> str:
        """Name of the last linear layer (of the last convolution where there is none): its outputs
        are the classes."""
        names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
        return (
            names
            or [name for name, module in model.named_modules() if isinstance(module, nn.Conv2d)]
        )[-1]

    def ungated(self, model: nn.Module) -> frozenset[str]:
        """Modules whose output no gate may multiply: they feed a sigmoid, which turns zero into one
        half."""
        return frozenset()

    def pointwise(self, model: nn.Module) -> frozenset[str]:
        """Linear layers that work place by place on [batch, height, width, channels] and whose
        outputs are filters."""
        return frozenset()

    def attentions(self, model: nn.Module) -> tuple[Attention, ...]:
        """Attention layers in the order of the network: where there are any, their heads are cut
        instead of filters."""
        return ()

    def read(self, model: nn.Module, images: Tensor) -> Any:
        """The pass from which Torch-Pruning reads the model's graph: one output, or a list of
        them."""
        return model(images)

    def customized_pruners(self) -> dict[type[nn.Module], Any]:
        """Torch-Pruning's pruners for modules it does not know, by module type."""
        return {}

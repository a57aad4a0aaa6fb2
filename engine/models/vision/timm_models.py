"""Convolutional classifiers of timm by name, `timm/resnet50`, where the package is installed. It is
not required.

Which of their groups can be cut is proved on each model, like everyone's (surgery/filters/safe.py).
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from torch import nn

from engine.core.errors import Fault, RequestError
from engine.models.vision.base import Architecture  # guards the torchvision import

ROWS: tuple[Architecture, ...] = ()
"""None without the package."""
PREFIX = "timm/"


class TimmArchitecture(Architecture):
    """One model of timm, with weights of a file or random ones: nothing is downloaded."""

    def __init__(self, name: str) -> None:
        import timm

        own = timm.get_pretrained_cfg(name.removeprefix(PREFIX))
        self.names = (name,)
        if own is not None:
            self.default_size, self.mean, self.std = (
                own.input_size[-1],
                tuple(own.mean),
                tuple(own.std),
            )

    def build(self, name: str, n_classes: int) -> nn.Module:
        import timm

        return timm.create_model(name.removeprefix(PREFIX), pretrained=False, num_classes=n_classes)


@cache
def timm_architecture(name: str) -> Architecture | None:
    """The architecture of a name that begins with timm/, None for others. RequestError without
    timm, or its model."""
    if not name.startswith(PREFIX):
        return None
    if find_spec("timm") is None:
        what = "is a model of the package timm, which is not installed."
        raise RequestError(
            Fault(name, what, "Install timm, or give torchvision's model of that name.")
        )
    import timm

    if not timm.is_model(name.removeprefix(PREFIX)):
        raise RequestError(
            Fault(name, "is no model of the installed timm.", "See timm.list_models().")
        )
    return TimmArchitecture(name)

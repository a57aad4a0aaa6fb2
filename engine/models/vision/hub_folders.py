"""Image classifiers of other packages: as transformers saves them, and timm's by name.

Those of transformers are built by its own classes from what their config.json says. Such a model is
named by its family and a digest of its config, e.g. vit-1a2b3c4d. Whoever reads a folder makes the
name known to this process; cut models carry the config with them.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from engine.core import memory
from engine.core.errors import refusal
from engine.core.types import Values
from engine.models.vision.base import Architecture, Attention  # guards the torchvision import

ROWS: tuple[Architecture, ...] = ()
"""None can be built by a name alone."""
_LABELS = (
    "id2label",
    "label2id",
    "num_labels",
    "architectures",
    "transformers_version",
    "_name_or_path",
    "dtype",
    "torch_dtype",
    "auto_map",
)
MOST_LAYERS = 10_000
TIMM = "timm/"
"""Begins the names of timm's models. The package is not required."""
_known: dict[str, HubArchitecture] = {}


class HubArchitecture(Architecture):
    """One config. Convolutions are cut where there are no attention heads."""

    def __init__(self, name: str, config: Values) -> None:
        self.names, self.config = (name,), dict(config)
        # Pixels a side of square images, said once or for height and width; None for
        # anything else.
        value = config.get("image_size")
        sides = value if isinstance(value, list) and len(value) == 2 else [value]
        side = sides[0] if sides[0] == sides[-1] and type(sides[0]) is int else None
        if config.get("num_channels", 3) != 3:
            channels = config["num_channels"]
            raise ValueError(f"its images have {channels} channels, not red, green and blue")
        self._refuse_too_large()
        found = self.attentions(self.build(name, 2))
        if any(one.head_dim < 1 for one in found):
            raise ValueError(f"its attention heads would be {found[0].head_dim} numbers wide")
        self.is_fixed = self.has_heads = bool(found)
        if side and self.has_heads:  # it has a number for every place
            self.default_size = self.min_size = side

    def build(self, name: str, n_classes: int) -> nn.Module:
        return self._made(n_classes, "cpu")  # buffers that no file holds must have their numbers

    def _made(self, n_classes: int, device: str) -> nn.Module:
        from transformers import AutoConfig

        plain = {key: value for key, value in self.config.items() if key != "model_type"}
        config = AutoConfig.for_model(self.config["model_type"], **plain, num_labels=n_classes)
        with torch.device(device):
            return _with_logits(_class_of(self.config["model_type"]))._from_config(
                config, attn_implementation="eager"
            )

    def _refuse_too_large(self) -> None:
        """ValueError for a config that asks for more layers than any model has, or more numbers
        than memory holds."""
        asked = [self.config.get("num_hidden_layers"), *(self.config.get("depths") or [])]
        layers = sum(one for one in asked if isinstance(one, int))
        if layers > MOST_LAYERS:
            raise ValueError(f"it names {layers} layers")
        try:
            empty = self._made(2, "meta")
        except RuntimeError:  # a family that computes with numbers while it is made
            return
        size, room = 4 * sum(one.numel() for one in empty.parameters()), memory.budget()
        if size > room:
            raise ValueError(
                f"it asks for {memory.in_words(size)} of weights, there is room for"
                f" {memory.in_words(room)}"
            )

    def pointwise(self, model: nn.Module) -> frozenset[str]:
        """ConvNeXt's wide layers."""
        return frozenset(name for name, _ in model.named_modules() if name.endswith(".pwconv1"))

    def attentions(self, model: nn.Module) -> tuple[Attention, ...]:
        """Attention with separate linear layers for queries, keys, values and the output, all heads
        alike."""
        parts = ("q_proj", "k_proj", "v_proj", "o_proj")
        return tuple(
            Attention(name, int(module.head_dim), tuple(f"{name}.{part}" for part in parts))
            for name, module in model.named_modules()
            if hasattr(module, "head_dim")
            and all(isinstance(getattr(module, one, None), nn.Linear) for one in parts)
        )


def made_known(config: Values) -> str:
    """The name of the architecture of a config.json, which this process knows from now on.
    RequestError where transformers cannot build it."""
    plain = {key: value for key, value in config.items() if key not in _LABELS}
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    name = f"{plain.get('model_type')}-{digest[:8]}"
    if name not in _known:
        try:
            _known[name] = HubArchitecture(name, plain)
        except Exception as error:  # whatever transformers finds wrong in a config
            first = " ".join(str(error).split()) or type(error).__name__
            what = f"cannot be built: {first[:200].rstrip('.')}."
            raise refusal(name, what, "Give another model.") from error
    return name


def hub_architecture(name: str) -> Architecture | None:
    """The architecture of a config that was made known; None for any other name."""
    return _known.get(name)


def families() -> Values:
    """Image classifiers that transformers knows: model type -> name of the class, or names."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES

    return dict(MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES)


def _class_of(family: str) -> Any:
    import transformers

    found = families()[family]
    return getattr(transformers, found if isinstance(found, str) else found[0])


@cache
def _with_logits(kind: Any) -> Any:
    """transformers' class, its tensors under the same names, answering logits [batch, classes]."""

    def forward(self: Any, images: Tensor) -> Tensor:
        made = kind.forward(self, pixel_values=images)
        return made.logits if "logits" in made else made.last_hidden_state  # as PP-LCNet calls them

    return type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})


class TimmArchitecture(Architecture):
    """One convolutional classifier of timm, `timm/resnet50`, with weights of a file or random ones:
    nothing is downloaded."""

    def __init__(self, name: str) -> None:
        import timm

        own = timm.get_pretrained_cfg(name.removeprefix(TIMM))
        self.names = (name,)
        if own is not None:
            self.default_size = own.input_size[-1]
            self.mean, self.std = tuple(own.mean), tuple(own.std)

    def build(self, name: str, n_classes: int) -> nn.Module:
        import timm

        return timm.create_model(name.removeprefix(TIMM), pretrained=False, num_classes=n_classes)


@cache
def timm_architecture(name: str) -> Architecture | None:
    """The architecture of a name that begins with timm/, None for others. RequestError without
    timm, or its model."""
    if not name.startswith(TIMM):
        return None
    if find_spec("timm") is None:
        what = "is a model of the package timm, which is not installed."
        fix = "Install timm, or give torchvision's model of that name."
        raise refusal(name, what, fix)
    import timm

    if not timm.is_model(name.removeprefix(TIMM)):
        what = "is no model of the installed timm."
        raise refusal(name, what, "See timm.list_models().")
    return TimmArchitecture(name)

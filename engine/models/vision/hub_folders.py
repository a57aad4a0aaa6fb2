"""Image classifiers saved by transformers, built by transformers' own classes from what their config.json says.

Such a model is named by its family and a digest of its config, e.g. vit-1a2b3c4d. Whoever reads a folder makes the name
known to this process; cut models carry the config with them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.vision.base import Architecture, Attention  # guards the torchvision import

ROWS: tuple[Architecture, ...] = ()
"""None can be built by a name alone."""
_LABELS = ("id2label", "label2id", "num_labels", "architectures", "transformers_version", "_name_or_path", "dtype",
           "torch_dtype", "auto_map")  # fmt: skip
_known: dict[str, HubArchitecture] = {}


class HubArchitecture(Architecture):
    """One config. Convolutions are cut where there are no attention heads."""

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        self.names, self.config = (name,), dict(config)
        side = config.get("image_size")
        self.is_fixed = self.has_heads = bool(self.attentions(self.build(name, 2)))
        if isinstance(side, int) and self.has_heads:  # it has a number for every place
            self.default_size = self.min_size = side

    def build(self, name: str, n_classes: int) -> nn.Module:
        from transformers import AutoConfig

        plain = {key: value for key, value in self.config.items() if key != "model_type"}
        config = AutoConfig.for_model(self.config["model_type"], **plain, num_labels=n_classes)
        with torch.device("cpu"):  # buffers that no file holds must have their numbers
            return _with_logits(_class_of(self.config["model_type"]))._from_config(config, attn_implementation="eager")

    def pointwise(self, model: nn.Module) -> frozenset[str]:
        """ConvNeXt's wide layers."""
        return frozenset(name for name, _ in model.named_modules() if name.endswith(".pwconv1"))

    def attentions(self, model: nn.Module) -> tuple[Attention, ...]:
        """Attention with separate linear layers for queries, keys, values and the output, all heads alike."""
        parts = ("q_proj", "k_proj", "v_proj", "o_proj")
        return tuple(
            Attention(name, int(module.head_dim), tuple(f"{name}.{part}" for part in parts))
            for name, module in model.named_modules()
            if hasattr(module, "head_dim") and all(isinstance(getattr(module, one, None), nn.Linear) for one in parts)
        )


def made_known(config: Mapping[str, Any]) -> str:
    """The name of the architecture of a config.json, which this process knows from now on."""
    plain = {key: value for key, value in config.items() if key not in _LABELS}
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    name = f"{plain['model_type']}-{digest[:8]}"
    if name not in _known:
        _known[name] = HubArchitecture(name, plain)
    return name


def hub_architecture(name: str) -> Architecture | None:
    """The architecture of a config that was made known; None for any other name."""
    return _known.get(name)


def families() -> dict[str, Any]:
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
        return kind.forward(self, pixel_values=images).logits

    return type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})

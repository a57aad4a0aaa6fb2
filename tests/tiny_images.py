"""Tiny random image classifiers as transformers saves them, one family each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from engine.models import runtime  # noqa: F401  (before transformers, which imports torchvision)
from engine.models.vision.hub_folders import made_known  # noqa: F401
from tests.classifiers.worlds import enliven

CLASSES = ("cat", "dog", "owl")
_HEADS = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 16,
    "patch_size": 4,
}
FAMILIES: dict[str, dict] = {
    "vit": _HEADS,
    "deit": _HEADS,
    "resnet": {
        "embedding_size": 8,
        "hidden_sizes": [8, 16],
        "depths": [1, 2],
        "layer_type": "basic",
    },
    "convnext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    "mobilenet_v2": {"depth_multiplier": 0.35, "image_size": 32},
}
_STAGES = {"image_size": 32, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4]}
MORE: dict[str, dict] = {
    "dinov2": {**_HEADS, "image_size": 32, "mlp_ratio": 2},
    "pp_lcnet": {"scale": 0.25},
    "bit": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_groups": 4},
    "convnextv2": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    "swin": {**_STAGES, "patch_size": 4, "window_size": 4},
    "hiera": {
        **_STAGES,
        "image_size": [32, 32],
        "mlp_ratio": 2.0,
        "num_query_pool": 1,
        "masked_unit_size": [4, 4],
        "query_stride": [2, 2],
        "masked_unit_attention": [True, False],
    },
    "siglip": {"vision_config": {**_HEADS, "image_size": 32}},
    "focalnet": {
        "image_size": 32,
        "embed_dim": 16,
        "depths": [1, 1],
        "focal_levels": [2, 2],
        "focal_windows": [3, 3],
        "hidden_sizes": [16, 32],
    },
}
"""Families of which not all can be audited."""


def saved_by_transformers(family: str, folder: Path, classes: Sequence[str] = CLASSES) -> Path:
    """A folder of config.json, model.safetensors and preprocessor_config.json."""
    import transformers

    said = (FAMILIES | MORE)[family]
    labels = {
        "id2label": dict(enumerate(classes)),
        "label2id": {name: at for at, name in enumerate(classes)},
    }
    config = transformers.AutoConfig.for_model(family, **said, **labels)
    kind: Any = transformers.models.auto.modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING[
        type(config)
    ]
    kind = kind[0] if isinstance(kind, tuple) else kind
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = kind(config)
        enliven(made, 0)
        made.save_pretrained(folder)
    side = 32 if family in MORE else said.get("image_size", 32)
    card = {
        "image_processor_type": "ViTImageProcessor",
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.2, 0.2, 0.2],
        "size": {"height": side, "width": side},
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(card))
    return folder

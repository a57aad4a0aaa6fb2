"""Tiny random image classifiers as transformers saves them, one family each."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from engine.models import runtime  # noqa: F401  (before transformers, which imports torchvision)
from engine.models.vision.hub_folders import made_known  # noqa: F401
from tests.classifiers.worlds import enliven

CLASSES = ("cat", "dog", "owl")
_HEADS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
          "image_size": 16, "patch_size": 4}  # fmt: skip
FAMILIES: dict[str, dict] = {
    "vit": _HEADS,
    "deit": _HEADS,
    "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2], "layer_type": "basic"},
    "convnext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    "mobilenet_v2": {"depth_multiplier": 0.35, "image_size": 32},
}


def saved_by_transformers(family: str, folder: Path) -> Path:
    """A folder of config.json, model.safetensors and preprocessor_config.json."""
    import transformers

    labels = {"id2label": dict(enumerate(CLASSES)), "label2id": {name: at for at, name in enumerate(CLASSES)}}
    config = transformers.AutoConfig.for_model(family, **FAMILIES[family], **labels)
    kind = transformers.models.auto.modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING[type(config)]
    kind = kind[0] if isinstance(kind, tuple) else kind
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        enliven(kind(config), 0).save_pretrained(folder)
    side = FAMILIES[family].get("image_size", 32)
    card = {"image_processor_type": "ViTImageProcessor", "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.2, 0.2],
            "size": {"height": side, "width": side}}  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(card))
    return folder

"""Classifiers of which the trained tensors alone lie in assets: put onto an encoder that a
Python package carries.

`built_on.json` names the package, the SHA-256 of its weights and of the trained tensors, the
labels and the one that is harm. The whole model is written once, below the user's data, under a
digest of both, and read from there like any other folder.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

from engine.core.errors import refusal
from engine.core.files import folder_whole, sha256_of
from engine.core.types import digest_of

BUILT_ON, TRAINED = "built_on.json", "trained.safetensors"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")


def is_built_on(folder: Path) -> bool:
    """Whether the folder holds trained tensors that need the encoder of a package."""
    return (folder / BUILT_ON).is_file()


def encoder_of(module: str) -> Path:
    """The folder of the encoder in an installed package, which is not imported. FileNotFoundError
    where there is none."""
    found = importlib.util.find_spec(module)
    for place in (found and found.submodule_search_locations) or ():
        if (Path(place) / "model" / "model.safetensors").is_file():
            return Path(place) / "model"
    raise FileNotFoundError(module)


def put_together(folder: Path) -> tuple[Path, str]:
    """The folder of the whole model, and its label that is harm. RequestError where the package is
    not installed, or holds or stores other numbers than those it was trained on."""
    pin = json.loads((folder / BUILT_ON).read_text(encoding="utf-8"))
    try:
        encoder = encoder_of(pin["module"])
    except FileNotFoundError as error:
        what = f"is built on the encoder of the package {pin['package']}, which is not installed."
        fix = "Install it by `make real`, or choose another judge."
        raise refusal(f"judge {folder.name}", what, fix) from error
    for path, wanted in (
        (encoder / "model.safetensors", pin["weights"]),
        (folder / TRAINED, pin["trained"]),
    ):
        if (found := sha256_of(path)) != wanted:
            what = f"needs {path.name} with SHA-256 {wanted}, and {path} has {found}."
            fix = f"Install {pin['package']} as it was pinned, or choose another judge."
            raise refusal(f"judge {folder.name}", what, fix)
    place = _home() / digest_of([pin])[:16]
    if not (place / "model.safetensors").is_file():
        _write(folder, encoder, pin, place)
    return place, pin["harm"]


def _home() -> Path:
    home = os.environ.get("PRUNEAUDIT_STORE") or "~/.local/share/pruneaudit"
    return Path(home).expanduser() / "put-together"


def _write(folder: Path, encoder: Path, pin: dict[str, Any], place: Path) -> None:
    from safetensors.torch import load_file, save_file

    whole = {
        f"bert.{name}": value for name, value in load_file(encoder / "model.safetensors").items()
    }
    whole.pop("bert.embeddings.position_ids", None)
    whole |= {name: value.float() for name, value in load_file(folder / TRAINED).items()}
    config = json.loads((encoder / "config.json").read_text(encoding="utf-8"))
    labels = dict(enumerate(pin["labels"]))
    config |= {
        "architectures": ["BertForSequenceClassification"],
        "id2label": labels,
        "label2id": {name: at for at, name in labels.items()},
    }
    place.parent.mkdir(parents=True, exist_ok=True)
    with folder_whole(place) as fresh:
        save_file(whole, fresh / "model.safetensors", metadata={"format": "pt"})
        (fresh / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
        for name in TOKENIZER:
            if (encoder / name).is_file():
                shutil.copyfile(encoder / name, fresh / name)
        path = fresh / "tokenizer_config.json"
        settings = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(
            json.dumps(settings | {"model_max_length": pin["length"]}, indent=1), encoding="utf-8"
        )

"""Model folders, changed in one place, and what is said of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.tiny import folder_of

WEIGHTS = "model.safetensors"


def copied(name: str, place: Path) -> Path:
    """A copy of a saved tiny model, to be written into."""
    return Path(shutil.copytree(folder_of(name), place / "model"))


def edit(folder: Path, name: str = "config.json", **fields: object) -> None:
    """Set fields of a document of JSON, which may not be there yet."""
    path = folder / name
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(old | fields))


def edit_weights(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    """Save other tensors than the folder has."""
    tensors = change(load_file(folder / WEIGHTS))
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})

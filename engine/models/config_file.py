"""config.json of a model folder as it stands, read as carefully as all JSON that users bring (`store/brought.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.core.errors import RequestError
from engine.store.brought import read_object

CONFIG = "config.json"
LARGEST = 64_000_000
"""Bytes; those of models with a hundred thousand classes have some."""


def config_of(folder: Path) -> dict[str, Any]:
    """The object in the folder's config.json. RequestError where there is none; of two fields of one name it would not
    be sure which one counts, so there is none then either. Infinity is a number in them: transformers writes it."""
    return read_object(folder / CONFIG, LARGEST, "Download or copy it again.", finite=False)


def config_or_nothing(folder: Path) -> dict[str, Any]:
    """The same; {} where it cannot be read, which is said when the model is asked for."""
    try:
        return config_of(folder)
    except RequestError:
        return {}

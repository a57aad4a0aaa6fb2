"""config.json of a model folder as it stands, read as carefully as all JSON that users bring
(`store/brought.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.core.errors import RequestError
from engine.core.files import sha256_of
from engine.store.brought import read_object

CONFIG = "config.json"
GENERATION = "generation_config.json"
LARGEST = 64_000_000
"""Bytes; those of models with a hundred thousand classes have some."""


def config_of(folder: Path, name: str = CONFIG) -> dict[str, Any]:
    """The object in the folder's config.json, or in another file of it. RequestError where there is
    none; of two fields of one name it would not be sure which one counts, so there is none then
    either. Infinity is a number in them: transformers writes it."""
    return read_object(folder / name, LARGEST, "Download or copy it again.", finite=False)


def config_or_nothing(folder: Path, name: str = CONFIG) -> dict[str, Any]:
    """The same, or that of another file; {} where it cannot be read, which is said when the model
    is asked for."""
    try:
        return config_of(folder, name)
    except RequestError:
        return {}


def hashes_beside(folder: Path) -> list[str]:
    """SHA-256 of every small file beside weights that decides what they compute; none where there
    is no folder."""
    beside = [
        path for ending in ("*.json", "*.txt", "*.model") for path in sorted(folder.glob(ending))
    ]
    return [sha256_of(path) for path in beside if path.is_file()]


def end_tokens(folder: Path, own: int | None) -> tuple[int, ...]:
    """Tokens that config.json and generation_config.json end a text with besides the tokenizer's
    own, ascending."""
    said = [config_or_nothing(folder, name).get("eos_token_id") for name in (CONFIG, GENERATION)]
    each = [one for value in said for one in (value if isinstance(value, list) else [value])]
    return tuple(sorted({one for one in each if type(one) is int and one >= 0} - {own}))

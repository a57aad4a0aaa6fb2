"""What made-up runs and worlds of all tracks share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.store.runs import RUN, SCHEMA
from engine.store.sealed import write_document


def hash_of(*parts: object) -> str:
    """A hash of a thing that is not there, by its name."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()


def instead(words: Sequence[object], *others: object) -> list[object]:
    """Words of a command line with `others` at their end; an option among these, with its values,
    goes before."""
    given, kept, skips = {str(word) for word in others if str(word).startswith("--")}, [], False
    for word in words:
        skips = str(word) in given if str(word).startswith("--") else skips
        kept += [] if skips else [word]
    return [*kept, *others]


def seal(folder: Path, meta: Mapping[str, Any]) -> None:
    """A run.json as somebody writes it who also adjusts the hash."""
    write_document(folder / RUN, meta, SCHEMA)


def options_of(given: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """The usual options with the given ones in their place; TypeError for one that does not
    exist."""
    if unknown := set(given) - set(usual):
        raise TypeError(f"unknown options {sorted(unknown)}")
    return {**usual, **given}

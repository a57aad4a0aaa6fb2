"""What made-up runs and worlds of all tracks share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any


def hash_of(*parts: object) -> str:
    """A hash of a thing that is not there, by its name."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()


def options_of(given: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """The usual options with the given ones in their place; TypeError for one that does not exist."""
    if unknown := set(given) - set(usual):
        raise TypeError(f"unknown options {sorted(unknown)}")
    return {**usual, **given}

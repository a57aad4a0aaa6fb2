"""Which code computes: the engine's source files, by what they say. No torch: pages ask it with
every question."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache

from engine.core.files import PROJECT

ENGINE = PROJECT / "engine"


def source_digest() -> str:
    """Digest of the engine's source files as they are on disk, wherever they lie; read again once
    one changed."""
    return _digest(tuple(sorted((entry.path, *stamp) for entry, stamp in _files(str(ENGINE)))))


def _files(folder: str) -> list[tuple[os.DirEntry[str], tuple[int, int]]]:
    """Source files below a folder, with size and time of change."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir() and entry.name != "__pycache__":
                found += _files(entry.path)
            elif entry.name.endswith(".py"):
                about = entry.stat()
                found.append((entry, (about.st_size, about.st_mtime_ns)))
    return found


@lru_cache(maxsize=2)
def _digest(stamped: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, _, _ in stamped:
        with open(path, "rb") as file:
            name = os.path.relpath(path, PROJECT).encode()
            digest.update(name + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]

"""Which code computes: an engine that was started from other files than are here now must not answer."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache

from engine.core.files import PROJECT

ENGINE = PROJECT / "engine"


def code_digest() -> str:
    """Digest of the engine's source files as they are on disk, and of where its jobs compute."""
    found = [(entry.path, *stamp) for entry, stamp in _files(str(ENGINE))]
    return _digest(tuple(sorted(found)), os.environ.get("PRUNEAUDIT_RAY", ""))


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
def _digest(stamped: tuple[tuple[str, int, int], ...], ray: str) -> str:
    digest = hashlib.sha256(ray.encode())
    for path, _, _ in stamped:
        with open(path, "rb") as file:
            digest.update(path.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]

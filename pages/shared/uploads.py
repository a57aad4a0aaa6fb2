"""Files a user brings through the browser, kept in the user's own store under the hash of their bytes."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from engine.core.files import write_whole
from engine.store.runs import default_root


def kept(upload: Any) -> Path:
    """Where the bytes of an uploaded file lie; written once per content, whole or not at all."""
    content = upload.getvalue()
    folder = default_root() / "uploads" / hashlib.sha256(content).hexdigest()[:16]
    path = folder / _plain_name(upload.name)
    if not path.exists():
        write_whole(path, lambda temporary: temporary.write_bytes(content) and None)
    return path


def _plain_name(name: str) -> str:
    """A file name that stays inside its folder, whatever the browser sent."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    cleaned = re.sub(r"[^A-Za-z0-9_.-]", "_", last).lstrip(".")[-80:]
    return cleaned or "file"

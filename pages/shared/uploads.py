"""Files a user brings through the browser, kept in the user's own store under the hash of their
bytes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, RequestError
from engine.core.files import write_whole
from engine.store.runs import default_root

QUOTA = 1 << 30
"""Bytes that all uploads together may take."""
KEPT = 90 * 24 * 3600.0
"""Seconds after its last use for which an upload is kept."""


def kept(upload: Any) -> Path:
    """Where the bytes of an uploaded file lie; written once per content, whole or not at all.

    What nobody used for KEPT seconds goes first. RequestError where it would not fit into QUOTA.
    """
    content = upload.getvalue()
    folder = default_root() / "uploads" / hashlib.sha256(content).hexdigest()[:16]
    path = folder / _plain_name(upload.name)
    if path.exists():
        with contextlib.suppress(OSError):
            os.utime(path)
        return path
    make_room(folder.parent, len(content))
    write_whole(path, lambda temporary: temporary.write_bytes(content) and None)
    return path


def make_room(folder: Path, size: int) -> None:
    """Delete uploads nobody used for long; RequestError where `size` bytes more would still be over
    the quota."""
    files = [path for path in folder.glob("*/*") if path.is_file()]
    for path in [path for path in files if time.time() - path.stat().st_mtime > KEPT]:
        shutil.rmtree(path.parent, ignore_errors=True)
        files.remove(path)
    taken = sum(path.stat().st_size for path in files)
    if taken + size > QUOTA:
        what = (
            f"is {size >> 20} MB, and uploads take {taken >> 20} of the {QUOTA >> 20} MB they may."
        )
        raise RequestError(
            Fault("upload", what, f"Name the file by its path instead, or delete from {folder}.")
        )


def _plain_name(name: str) -> str:
    """A file name that stays inside its folder, whatever the browser sent."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    cleaned = re.sub(r"[^A-Za-z0-9_.-]", "_", last).lstrip(".")[-80:]
    return cleaned or "file"

"""Which folders a browser may have read and written: below stated roots only. The command line has
no such bounds.

Who sits at the machine loses nothing, who got hold of a page of it gains nothing: no key, no other
person's files. Links are followed first, so that none leads out.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engine.core.errors import Fault, RequestError, refusal
from engine.core.files import PROJECT, write_whole
from engine.core.types import Values
from engine.store.runs import default_root

READ, WRITE = "PRUNEAUDIT_ROOTS", "PRUNEAUDIT_EXPORT_ROOT"
"""Environment variables that name other roots, separated by the system's path separator."""


def readable() -> tuple[Path, ...]:
    """Below these a page may have files read: as stated, else home and the working folder; always
    the store, the hub's cache of models and what is embedded."""
    named = os.environ.get(READ)
    asked = named.split(os.pathsep) if named else [Path.home(), Path.cwd()]
    hub = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    found = (*asked, default_root(), hub, PROJECT)
    return tuple({Path(one).expanduser().resolve(): one for one in found if str(one)})


def writable() -> tuple[Path, ...]:
    """Below these a page may have folders written: as stated, else home."""
    named = os.environ.get(WRITE)
    return tuple(
        Path(one).expanduser().resolve()
        for one in (named.split(os.pathsep) if named else [Path.home()])
    )


def hidden(path: Path, root: Path) -> bool:
    """Whether a path below a root leads through a name that begins with a dot, as those of keys and
    settings do."""
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def is_inside(path: str | Path, roots: Iterable[Path]) -> bool:
    """Whether a path, links followed, lies below one of the roots and is nothing hidden there."""
    try:
        whole = Path(path).expanduser().resolve()
    except (OSError, ValueError, RuntimeError):
        return False
    return any(whole.is_relative_to(root) and not hidden(whole, root) for root in roots)


def refuse_outside(request: Values) -> None:
    """RequestError naming every value of a request that is a path of this machine outside the
    readable roots."""
    roots = readable()
    outside = [
        (name, one)
        for name, value in request.items()
        for one in _paths(value)
        if not is_inside(one, roots)
    ]
    if outside:
        listed = ", ".join(map(str, roots))
        fix = (
            f"Put it below {listed}, start the app by `make run ROOTS=…` ({READ}), or use the"
            " command line."
        )
        raise RequestError(
            [
                Fault(name, f"{path[:200]!r} may not be read from a page.", fix)
                for name, path in outside
            ]
        )


def outside(value: Any) -> bool:
    """Whether a value, or one in it, is a path of this machine outside the readable roots."""
    roots = readable()
    return any(not is_inside(path, roots) for path in _paths(value))


def refuse_target(folder: str) -> None:
    """RequestError for a folder that a page may not write."""
    if not is_inside(folder, writable()):
        listed = ", ".join(map(str, writable()))
        fix = (
            f"Choose a folder below {listed}, or start the app by `make run EXPORT_ROOT=…`"
            f" ({WRITE})."
        )
        raise refusal("folder", f"{folder[:200]!r} may not be written from a page.", fix)


def _paths(value: Any) -> list[str]:
    """Texts in a value, lists and groups included, that are paths, also behind NAME=; names of hubs
    are none."""
    if isinstance(value, str):
        # Whether a text can only be a path, be something there or not: an answer shall not tell
        # which.
        return [
            text
            for text in (value, value.partition("=")[2])
            if text
            and ((text.startswith(("/", "~/")) or ".." in Path(text).parts) or _is_there(text))
        ]
    if isinstance(value, Mapping):
        return [path for one in value.values() for path in _paths(one)]
    return (
        [path for one in value for path in _paths(one)] if isinstance(value, list | tuple) else []
    )


def _is_there(text: str) -> bool:
    """Whether a text is a path to something; what may not be looked at counts as there."""
    try:
        os.stat(Path(text).expanduser())
    except PermissionError:
        return True
    except (OSError, ValueError, RuntimeError):
        return False
    return True


# Files a user brings through the browser, kept in the user's own store under the hash of their
# bytes.


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
        raise refusal(
            "upload", what, f"Name the file by its path instead, or delete from {folder}."
        )


def _plain_name(name: str) -> str:
    """A file name that stays inside its folder, whatever the browser sent."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    cleaned = re.sub(r"[^A-Za-z0-9_.-]", "_", last).lstrip(".")[-80:]
    return cleaned or "file"

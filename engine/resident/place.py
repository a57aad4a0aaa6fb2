"""Where the engine of a store is found: socket and lock in a folder that only this user can open,
and its log."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from engine.core.errors import PruneAuditError
from engine.core.files import explained
from engine.core.types import digest_of
from engine.resident.wire import ASKED, TOLD, Wire
from engine.store.runs import Store

LONGEST = 100
"""Bytes that the path of a socket may have on every system, with some to spare."""
LOG = 1 << 20
"""Bytes of the log, of which the last quarter is kept when it is full."""


@dataclass(frozen=True)
class Place:
    """Files of one store's engine. Two stores never share one; two names of one folder do."""

    socket: Path
    lock: Path
    log: Path

    def dialled(self) -> Wire | None:
        """A connection to the engine that listens here; None where none does."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(self.socket))
        except OSError:
            connection.close()
            return None
        wire = Wire(connection, sends=ASKED, takes=TOLD)
        if not wire.is_of_this_user():
            wire.close()
            raise PruneAuditError(
                f"{self.socket} is served by another user. Remove it, or set PRUNEAUDIT_ENGINE=off."
            )
        return wire


def place_of(store: Store) -> Place:
    """Where the engine of a store is, running or not. PruneAuditError where the folder is not ours
    alone."""
    folder = _folder()
    name = digest_of(str(store.root.resolve()))[:16]
    log = store.root / "engine.log" if _can_be_written(store.root) else folder / f"{name}.log"
    return Place(folder / f"{name}.sock", folder / f"{name}.lock", log)


def _folder() -> Path:
    """The private folder, made where it is not there."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(runtime) / "pruneaudit"
    if (
        not runtime
        or not os.access(runtime, os.W_OK | os.X_OK)
        or len(os.fsencode(folder)) > LONGEST - 24
    ):
        folder = Path(tempfile.gettempdir()) / f"pruneaudit-{os.getuid()}"
    if len(os.fsencode(folder)) > LONGEST - 24:  # a name of 16 and an ending have to fit
        folder = Path("/tmp") / f"pruneaudit-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise PruneAuditError(
            f"{folder} cannot be made ({error.strerror}). {_ELSEWHERE}"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PruneAuditError(
            f"{folder} is not a folder that only you can open (mode 700). Remove it. {_ELSEWHERE}"
        )
    return folder


_ELSEWHERE = (
    "Or set XDG_RUNTIME_DIR to a folder of yours, or PRUNEAUDIT_ENGINE=off to compute without an"
    " engine."
)


def _can_be_written(folder: Path) -> bool:
    """Whether a folder is or could be made: a store on a read-only disk still answers what writes
    nothing."""
    here = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return here.is_dir() and os.access(here, os.W_OK | os.X_OK)


def opened_log(log: Path) -> BinaryIO:
    """The log, to write at its end; only its owner can read it: it may name files and quote what
    was asked."""
    with explained(log.parent):
        log.parent.mkdir(parents=True, exist_ok=True)
        return os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


def keep_short(log: Path) -> None:
    """Drop the older part of a log that is full."""
    if log.stat().st_size > LOG:
        with log.open("r+b") as file:
            file.seek(-LOG // 4, os.SEEK_END)
            last = file.read()
            file.seek(0)
            file.truncate()
            file.write(last)


def last_words(log: Path, lines: int = 3) -> str:
    """The end of a log, for a message."""
    try:
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return ""

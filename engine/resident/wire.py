"""How the engine of a store is found and spoken to: socket, lock, log, code, messages.

Messages over a local socket are JSON objects, each after its length in four bytes. Nothing is ever
unpickled.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import stat
import struct
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from engine.audit.session import source_digest
from engine.core.errors import Fault, PruneAuditError, RequestError, refusal
from engine.core.files import PROJECT, explained, make_folder
from engine.core.types import Values, digest_of
from engine.store.runs import Store

ASKED = 4 << 20
"""Bytes of the largest message to the engine."""
TOLD = 64 << 20
"""Bytes of the largest message from the engine."""
STUCK = 3
"""Seconds after which a reader that takes nothing counts as gone."""
_HEAD = struct.Struct(">I")


class Closed(Exception):
    """The other side is gone."""


def packed(message: Values, most: int) -> bytes:
    """A message as bytes. RequestError for one of more than `most` bytes, TypeError for what is no
    JSON."""
    body = json.dumps(message, ensure_ascii=False, allow_nan=False).encode(
        "utf-8", "backslashreplace"
    )
    if len(body) > most:
        raise RequestError(_too_large(len(body), most))
    return _HEAD.pack(len(body)) + body


def _too_large(size: int, most: int) -> Fault:
    return Fault(
        "question",
        f"is of {size / 2**20:.1f} MB, or its answer.",
        f"At most {most >> 20} MB can be sent.",
    )


class Wire:
    """One side of a connection. `sends` and `takes`: bytes of the largest message out and in."""

    def __init__(self, connection: socket.socket, sends: int, takes: int) -> None:
        self.connection, self.sends, self.takes = connection, sends, takes
        self._read = bytearray()
        self._sending = threading.Lock()
        connection.setblocking(True)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", STUCK, 0))

    def is_of_this_user(self) -> bool:
        """Whether the other side runs as the same user; where the system does not say, the folder
        guards the socket."""
        if not hasattr(socket, "SO_PEERCRED"):
            return True
        size = struct.calcsize("3i")
        _, user, _ = struct.unpack(
            "3i", self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        )
        return user == os.getuid()

    def send(self, message: Values) -> None:
        """Closed where nobody takes it."""
        whole = packed(message, self.sends)
        try:
            with self._sending:
                self.connection.sendall(whole)
        except OSError as error:
            self.close()  # part of a message may be under way: nothing can follow it
            raise Closed from error

    def receive(self, seconds: float | None = None) -> dict[str, Any] | None:
        """The next message; None after so many seconds without a whole one.

        Closed where the other side is gone, RequestError for what is no message; after that nothing
        can be read.
        """
        while len(self._read) < _HEAD.size or len(self._read) < _HEAD.size + self._size():
            try:
                if seconds is not None and not select.select([self.connection], [], [], seconds)[0]:
                    return None
                more = self.connection.recv(1 << 16)
            except (OSError, ValueError) as error:
                raise Closed from error
            if not more:
                raise Closed
            self._read += more
        end = _HEAD.size + self._size()
        body = bytes(self._read[_HEAD.size : end])
        del self._read[:end]
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise refusal(
                "message", "is no JSON object.", "Ask through `python -m engine` or the app."
            )
        return message

    def _size(self) -> int:
        (size,) = _HEAD.unpack(self._read[: _HEAD.size])
        if size > self.takes:
            raise RequestError(_too_large(size, self.takes))
        return size

    def close(self) -> None:
        """End the connection; whoever reads from it on either side sees that."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


# Where the engine is: socket and lock in a folder that only this user can open, and its log.


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
    # A store on a read-only disk still answers what writes nothing.
    there = next(parent for parent in (store.root, *store.root.parents) if parent.exists())
    is_open = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    log = store.root / "engine.log" if is_open else folder / f"{name}.log"
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


def opened_log(log: Path) -> BinaryIO:
    """The log, to write at its end; only its owner can read it: it may name files and quote what
    was asked."""
    with explained(log.parent):
        make_folder(log.parent)
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


# An engine that was started from other files than are here now must not answer.


def code_digest() -> str:
    """Digest of the engine's source files, of where they lie, and of where its jobs compute."""
    return digest_of([source_digest(), str(PROJECT), os.environ.get("PRUNEAUDIT_RAY", "")])[:16]

"""Messages over a local socket: JSON objects, each after its length in four bytes. Nothing is ever
unpickled."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import threading
from collections.abc import Mapping
from typing import Any

from engine.core.errors import Fault, RequestError

ASKED = 4 << 20
"""Bytes of the largest message to the engine."""
TOLD = 64 << 20
"""Bytes of the largest message from the engine."""
STUCK = 3
"""Seconds after which a reader that takes nothing counts as gone."""
_HEAD = struct.Struct(">I")


class Closed(Exception):
    """The other side is gone."""


def packed(message: Mapping[str, Any], most: int) -> bytes:
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

    def send(self, message: Mapping[str, Any]) -> None:
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
            raise RequestError(
                Fault("message", "is no JSON object.", "Ask through `python -m engine` or the app.")
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

"""Locks of files that the system lets go of when their holder dies, however it dies."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

EVERY = 0.2
"""Seconds between two tries."""


def taken(path: Path) -> TextIO | None:
    """The file with its lock held until it is closed; None where another holds it. OSError where it
    cannot be made."""
    file = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def held(path: Path) -> bool:
    """Whether a process holds the file's lock. Makes no file."""
    try:
        with path.open(encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Iterator[TextIO]:
    """Hold the file's lock; `waiting` is called again and again while another has it, and may
    raise."""
    while (file := taken(path)) is None:
        waiting()
        time.sleep(EVERY)
    with file:
        yield file

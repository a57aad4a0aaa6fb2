"""Which reader knows a source's layout, and what the file system refuses, in plain words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from engine.core.errors import Fault, RequestError


class Reader(Protocol):
    """Reads one layout of data."""

    name: str

    def recognises(self, source: str, path: Path) -> bool: ...


Found = TypeVar("Found", bound=Reader)


def reader_of(source: str, readers: Sequence[Found], things: str) -> tuple[Found, Path]:
    """The first reader that knows the source, and its path. RequestError names what all of them
    read."""
    known = f"Known: {'; '.join(reader.name for reader in readers)}."
    if not source.strip():
        raise RequestError(Fault("data", "No data is named.", known))
    path = Path(source).expanduser()
    for reader in readers:
        if reader.recognises(source, path):
            return reader, path
    what = (
        f"The layout of the {things} is not known."
        if path.exists()
        else "There is no such file or folder."
    )
    raise RequestError(Fault(f"data {source[:200]}", what, known))


@contextlib.contextmanager
def explained(source: str) -> Iterator[None]:
    """Within it, what the file system refuses becomes a RequestError."""
    try:
        yield
    except (
        OSError,
        RuntimeError,
    ) as error:  # RuntimeError: a home folder that cannot be found, a loop of links
        why = getattr(error, "strerror", None) or str(error)
        fault = Fault(
            f"data {source[:200]}",
            f"It cannot be read ({why}).",
            "Check the path and its permissions.",
        )
        raise RequestError(fault) from error
    except ValueError as error:
        if "null" not in str(error):
            raise
        raise RequestError(
            Fault("data", "The path holds a character no path can hold.", "Check the path.")
        ) from error

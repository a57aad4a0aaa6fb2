"""Finished parts of long work, found again by what they were computed from.

A shard's key is the digest of everything its numbers depend on (weights, mask, prompts, decoding,
judge, seed, code version of the method). So two requests that need the same part compute it once,
and a killed run goes on where it stopped. Its file carries its own SHA-256, compared whenever it is
read: a damaged one counts as not finished, is said to be, and is computed again.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from engine.core.files import safe_id
from engine.core.types import Values
from engine.store.sealed import DamagedError, read_bytes, write_bytes


@dataclass
class Used:
    """Which shards a piece of work read or wrote: their hashes by key; and files that were found
    damaged."""

    hashes: dict[str, str] = field(default_factory=dict)
    damaged: list[Path] = field(default_factory=list)


_USED: ContextVar[Used | None] = ContextVar("used", default=None)


@contextlib.contextmanager
def noted() -> Iterator[Used]:
    """What is read and written within it, by this thread, in any store."""
    mark = _USED.set(used := Used())
    try:
        yield used
    finally:
        _USED.reset(mark)


class Shards:
    """Content-addressed tables below one folder. `None` as folder keeps nothing (for tests and
    one-off use)."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._sound: set[str] = set()

    def path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key}.shard"

    def get(self, key: str) -> pd.DataFrame | None:
        """The finished table with the columns it was put with, or None. A damaged file counts as
        not finished."""
        if self.folder is None:
            return None
        try:
            body, digest = read_bytes(self.path(key), key)
            table = _table(body)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, DamagedError):  # pyarrow's ArrowInvalid is a ValueError
            path = self.path(key)
            if (used := _USED.get()) is not None and path not in used.damaged:
                used.damaged.append(path)
            return None
        _note(key, digest)
        return table

    def has(self, key: str) -> bool:
        """Whether `get` would find it. Read once, then remembered for the life of the object."""
        if key not in self._sound and self.get(key) is not None:
            self._sound.add(key)
        return key in self._sound

    def put(self, key: str, table: pd.DataFrame) -> None:
        """Keep a finished table under its key, any columns, without its index."""
        if self.folder is not None:
            body = table.to_parquet(None, compression="zstd", index=False)
            _note(key, write_bytes(self.path(key), key, body))
            self._sound.add(key)

    def hash_of(self, key: str) -> str | None:
        """The SHA-256 of a finished shard, None where there is none. DamagedError for a damaged
        one."""
        try:
            return read_bytes(self.path(key), key)[1]
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DamagedError(f"{self.path(key)} cannot be read ({error.strerror}).") from error


def _table(body: bytes) -> pd.DataFrame:
    """What `pd.read_parquet` gives, in half its time: shards are small, and there are thousands."""
    found = pq.ParquetFile(pa.BufferReader(body)).read(use_threads=False, use_pandas_metadata=True)
    return found.to_pandas(use_threads=False)


def _note(key: str, digest: str) -> None:
    if (used := _USED.get()) is not None:
        used.hashes[key] = digest


class PartialFit:
    """The state of an unfinished fit, so that a killed run goes on in the middle of a training.

    One file below `folder`; tensors and plain values only (`weights_only`). Damaged, it is
    none."""

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / f"{safe_id(key, 'key')}.pt"

    def load(self) -> Values | None:
        """What was saved last, or None."""
        import torch

        try:
            body, _ = read_bytes(self.path, self.path.stem)
            return torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
        except (OSError, DamagedError):  # also one of a version that kept no hash: it is begun anew
            return None

    def save(self, state: Values) -> None:
        """Whole or not at all; replaces what was there."""
        import torch

        torch.save(state, body := io.BytesIO())
        write_bytes(self.path, self.path.stem, body.getvalue())

    def clear(self) -> None:
        """The fit is finished."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

"""Files that tell by themselves whether they are as they were written: bytes and JSON with their
SHA-256 inside.

Not against forgery: whoever can write the store can write hashes too. Against a disk, a copy or a
program that changed a bit, which without this would be given out as a number.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from engine.core.errors import StoreError, refused_by_system
from engine.core.files import is_special, safe_id, write_json, write_whole
from engine.core.types import Values

MAGIC = b"PruneAudit1"
_TAIL = 32 + len(MAGIC)
SEAL = "seal"
"""The field of a JSON document that holds the SHA-256 of all its other fields."""


class NewerError(StoreError):
    """A file of a later version of this program."""


class DamagedError(StoreError):
    """A file that is not as it was written."""


def write_bytes(path: Path, key: str, body: bytes) -> str:
    """`body` and the SHA-256 of it and of `key`, so that a sound file in another's place is found
    out too. The hash, in hex."""
    digest = _digest(key, body)
    write_whole(path, lambda temporary: temporary.write_bytes(body + digest + MAGIC))
    return digest.hex()


def read_bytes(path: Path, key: str) -> tuple[bytes, str]:
    """What `write_bytes` was given, and its hash. DamagedError for anything else, OSError where
    nothing can be read."""
    if is_special(path):
        raise DamagedError(f"{path} is damaged: it is neither a file nor a folder.")
    data = path.read_bytes()
    body, digest = data[:-_TAIL], data[-_TAIL : -len(MAGIC)]
    if len(data) < _TAIL or data[-len(MAGIC) :] != MAGIC or _digest(key, body) != digest:
        raise DamagedError(f"{path} is damaged: it has other bytes than were written.")
    return body, digest.hex()


def _digest(key: str, body: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + body).digest()


def write_document(path: Path, value: Values, schema: int) -> None:
    """A JSON object with its schema and its seal. Fields of these names are ours."""
    document = {**json.loads(json.dumps(dict(value), allow_nan=False)), "schema": schema}
    document.pop(SEAL, None)
    write_json(path, {**document, SEAL: seal_of(document)})


def read_document(path: Path, what: str, schema: int) -> Values:
    """The object that was written, without its seal.

    NewerError for a later schema; DamagedError for what is no such document, or not the one that
    was written. Fields that nobody knows are kept: later versions of one schema may add some.
    """
    try:
        if is_special(path):
            raise ValueError("neither a file nor a folder")
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
        version, seal = found.get("schema", 0), found.pop(SEAL, None)
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedError(
            f"{what} is damaged: its {path.name} cannot be read ({refused_by_system(error)})."
        ) from error
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise DamagedError(f"{what} is damaged: its {path.name} says no schema that could be.")
    if version > schema:
        raise NewerError(
            f"{what} has schema {version}, of a newer version; this one reads up to {schema}."
        )
    if seal != seal_of(found):
        raise DamagedError(f"{what} is damaged: its {path.name} is not what was written.")
    return found


def seal_of(document: Values) -> str:
    """SHA-256 (hex) of a JSON object in its one canonical form, without its seal."""
    rest = {name: value for name, value in document.items() if name != SEAL}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# Finished parts of long work, found again by what they were computed from.
#
# A shard's key is the digest of everything its numbers depend on (weights, mask, prompts,
# decoding, judge, seed, code version of the method). So two requests that need the same part
# compute it once, and a killed run goes on where it stopped. Its file carries its own SHA-256,
# compared whenever it is read: a damaged one counts as not finished, is said to be, and is
# computed again.


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
    """Content-addressed tables below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sound: set[str] = set()

    def path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.shard"

    def get(self, key: str) -> pd.DataFrame | None:
        """The finished table with the columns it was put with, or None. A damaged file counts as
        not finished."""
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

"""Files that tell by themselves whether they are as they were written: bytes and JSON with their
SHA-256 inside.

Not against forgery: whoever can write the store can write hashes too. Against a disk, a copy or a
program that changed a bit, which without this would be given out as a number.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from engine.core.errors import StoreError
from engine.core.files import is_special, write_json, write_whole
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
            f"{what} is damaged: its {path.name} cannot be read ({_why(error)})."
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


def _why(error: Exception) -> str:
    return (
        (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
    )

"""Files are written whole or not at all, and never outside the store."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import math
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from engine.core.errors import PruneAuditError, StoreError, refusal, refused_by_system
from engine.core.text import json_text

PROJECT = Path(__file__).resolve().parents[2]
"""The folder that holds app.py."""
ASSETS = PROJECT / "assets"
UNFINISHED = ".unfinished"
"""Ending of files and folders while they are written."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")


def safe_id(text: str, what: str = "run id") -> str:
    """The id itself when it is a plain file name; anything that could leave the store raises
    StoreError."""
    if not isinstance(text, str) or not _ID.match(text) or ".." in text:
        raise StoreError(
            f"{what} {text!r} is not valid. Use letters, digits, '-', '_' and '.' only, as `runs"
            " list` prints them."
        )
    return text


def make_folder(folder: Path) -> None:
    """The folder and those above it, where they are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)


def _unused(folder: str | Path) -> Path:
    """A place that a person named. RequestError where something lies in it."""
    folder = Path(folder).expanduser()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise refusal("to", f"{folder} is not an empty folder.", "Choose another folder.")
    return folder


def empty_folder(folder: str | Path) -> Path:
    """The folder, made where it is not there. RequestError where something lies in it."""
    folder = _unused(folder)
    with explained(folder, "folder"):
        make_folder(folder)
    return folder


@contextlib.contextmanager
def explained(folder: Path, noun: str = "store") -> Iterator[None]:
    """Turn operating-system failures below `folder` into a StoreError that says what to do."""
    try:
        yield
    except PruneAuditError:
        raise
    except Exception as error:
        code = _code_of(error)
        if code is None:
            raise
        reasons = {
            errno.ENOSPC: "the disk is full. Free some space",
            errno.EDQUOT: "the disk quota is used up. Free some space",
            errno.EROFS: "the disk is read-only. Choose another store",
            errno.EACCES: "it may not be written. Choose another store",
            errno.EPERM: "it may not be written. Choose another store",
            errno.ENOTDIR: "part of the path is a file. Choose another store",
            errno.EEXIST: "part of the path is a file. Choose another store",
        }
        reason = reasons.get(code, f"{refused_by_system(error)}. Choose another store")
        reason = reason if noun == "store" else reason.replace("another store", "another place")
        how = (
            " (--store DIR or PRUNEAUDIT_STORE). Finished parts are kept."
            if noun == "store"
            else "."
        )
        raise StoreError(f"{noun} {folder}: {reason}{how}") from error


def _code_of(error: Exception) -> int | None:
    """The system's number of a failure, also where a library written in Rust tells it in words;
    None for another."""
    if isinstance(error, OSError):
        return error.errno or 0
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else None


def write_whole(path: Path, write: Callable[[Path], object], noun: str = "store") -> None:
    """Let `write` fill a temporary file beside `path`, flush it to disk, then rename it into
    place."""
    with explained(path.parent, noun):
        make_folder(path.parent)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=UNFINISHED, dir=path.parent)
        temporary = Path(name)
        try:
            fcntl.flock(
                handle, fcntl.LOCK_EX
            )  # held while it is written: `sweep` takes what nobody holds
            write(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.chmod(
                0o644
            )  # mkstemp makes it private to its owner; a shared store must stay readable
            temporary.replace(path)
        finally:
            os.close(handle)
            temporary.unlink(missing_ok=True)


def probe(folder: Path) -> None:
    """OSError unless a file can be written in `folder`, or in its nearest parent that exists.
    Leaves nothing behind."""
    here = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    trial = here / f".probe-{os.getpid()}"
    try:
        trial.write_bytes(b"x" * 65536)
    finally:
        with contextlib.suppress(OSError):
            trial.unlink(missing_ok=True)


def writable(path: Path) -> bool:
    """Whether a file could be written there."""
    try:
        probe(path.parent)
    except OSError:
        return False
    return not path.is_dir()


def write_json(path: Path, value: Any) -> None:
    """JSON, sorted and indented, whole or not at all. NaN is refused: it is not JSON."""
    text = json_text(value, indent=2, sort_keys=True)
    write_whole(
        path, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8") and None
    )


@contextlib.contextmanager
def folder_whole(
    target: Path, noun: str = "store", give: Callable[[Path, Path], object] | None = None
) -> Iterator[Path]:
    """A temporary folder that becomes `target` when the block ends well, and vanishes otherwise.

    give: how it gets that name; where None, what lies there goes.
    """
    with explained(target.parent, noun):
        make_folder(target.parent)
        temporary = Path(
            tempfile.mkdtemp(prefix=f".{target.name}.", suffix=UNFINISHED, dir=target.parent)
        )
        handle = os.open(temporary, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with explained(target.parent, noun):
            yield temporary
            temporary.chmod(0o755)
            (give or _put)(temporary, target)
    finally:
        os.close(handle)
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def new_folder(folder: str | Path) -> Iterator[Path]:
    """The same of a folder that a person named. RequestError where something lies in it."""
    with folder_whole(_unused(folder), "folder", _move) as draft:
        yield draft


def _move(folder: Path, target: Path) -> None:
    """Give a folder its name where nothing lies. RequestError where something came to lie there."""
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            _unused(target)
        raise


def _put(folder: Path, target: Path) -> None:
    """Give a folder its name. What lies there is moved aside in one step: deleted in place, file by
    file, it could be another writer's by then."""
    for left in reversed(range(100)):
        try:
            folder.rename(target)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not left:
                raise
        aside = Path(
            tempfile.mkdtemp(prefix=f".{target.name}.", suffix=UNFINISHED, dir=target.parent)
        )
        with contextlib.suppress(FileNotFoundError):  # another writer has just moved it aside
            target.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def sweep(folder: Path, older: float = 60.0) -> list[Path]:
    """Delete what killed writers left unfinished below `folder`, and say what it was.

    A writer holds a lock on what it writes as long as it lives. One that has made its file may not
    hold it yet, so what is younger than `older` seconds stays.
    """
    gone = []
    for path in folder.rglob(f".*{UNFINISHED}"):
        with contextlib.suppress(OSError):
            if abs(time.time() - path.stat().st_mtime) < older:
                continue
            handle = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                gone.append(path)
            finally:
                os.close(handle)
    return gone


def in_full(text: str) -> str:
    """A path from the root on, whether something is there or not; ~NAME of somebody unknown stays
    as it is."""
    return str(Path(os.path.expanduser(text)).absolute())


def is_special(path: str | Path) -> bool:
    """Whether there is something that is neither a file nor a folder: reading a pipe or a device
    might never end."""
    # Not there, a NUL in its name, a home that cannot be found.
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        mode = os.stat(Path(path).expanduser()).st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def is_too_long(path: str | Path) -> bool:
    """Whether no file can be called so: every question about it raises."""
    try:
        os.stat(Path(path).expanduser())
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    except (ValueError, RuntimeError):  # a NUL in its name, a home that cannot be found
        return False
    return False


def sha256_of(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_able(value: Any) -> Any:
    """The same value for JSON: numpy numbers as Python's, NaN and infinities as None."""
    if isinstance(value, dict):
        return {str(name): json_able(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_able(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


# Locks, which the system lets go of when their holder dies, however it dies.


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

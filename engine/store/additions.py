"""What was added to a finished run: one folder per addition in the user's store, written whole or
not at all.

A run itself is never written again. Only labels, of which there is one addition per person, are
replaced as they grow. STORE/additions/RUN/ADDITION holds addition.json and tables
named as the run's own. An addition's id is a digest of the run, of what was asked and of the code
that computed it. So who adds the same thing twice writes it once, and different things never meet.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import StoreError
from engine.core.files import UNFINISHED, explained, folder_whole, safe_id, sha256_of
from engine.core.types import digest_of
from engine.store.sealed import read_document, write_document
from engine.store.tables import Pieces, read_table, write_tables

SCHEMA = 2
"""Since 2, addition.json carries a seal: the hash of its own content."""
FILE = "addition.json"


@dataclass(frozen=True)
class Addition:
    """A sound addition: its hashes were compared when it was read."""

    path: Path
    meta: Mapping[str, Any]
    """addition.json: id, run, created, asked, provenance. keys (columns that tell a table's rows
    apart, by table), numbered (columns that count the rows of a table, by column). tables with rows
    and hash, and what the track adds."""

    @property
    def id(self) -> str:
        return self.path.name

    def has(self, name: str) -> bool:
        return name in self.meta["tables"]

    def table(self, name: str) -> pd.DataFrame:
        return read_table(
            self.path, name, self.meta["tables"][name]["sha256"], f"addition {self.id}"
        )


def id_of(run_id: str, asked: Mapping[str, Any], versions: Mapping[str, int]) -> str:
    """The id of what is added to a run: digest of the run, what was asked (JSON-able) and the
    code's versions."""
    return digest_of([run_id, dict(asked), dict(versions)])[:16]


def paths_of(root: Path, run_id: str) -> tuple[Path, ...]:
    """Folders of everything that was added to a run in the store at `root`, damaged ones too."""
    folder = root / "additions" / run_id
    return (
        tuple(sorted(path for path in folder.glob("[!.]*") if path.is_dir()))
        if folder.is_dir()
        else ()
    )


def write_addition(
    root: Path,
    run_id: str,
    addition_id: str,
    meta: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame | Pieces],
) -> Path:
    """Write an addition unless a sound one of this id is there; its tables go as parquet, without
    their index.

    `meta` says what `Addition.meta` names but for id, run and tables, which are filled in here.
    """
    target = root / "additions" / safe_id(run_id) / safe_id(addition_id, "addition id")
    if is_sound(target):
        return target
    try:
        with folder_whole(target) as folder:
            listed = write_tables(folder, tables)
            write_document(
                folder / FILE, {**meta, "id": addition_id, "run": run_id, "tables": listed}, SCHEMA
            )
    except StoreError:
        if not is_sound(target):  # else another process was faster
            raise
    return target


def remove_addition(path: Path) -> None:
    """Take an addition away, in one step: whoever reads meanwhile finds it whole or not at all."""
    aside = path.with_name(f".{path.name}{UNFINISHED}")
    with explained(path.parent):
        path.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def is_sound(path: Path) -> bool:
    """Whether an addition is there, whole and undamaged."""
    try:
        read_addition(path)
    except StoreError:
        return False
    return True


def read_addition(path: Path) -> Addition:
    """The addition in a folder. StoreError where it is damaged: its json, or bytes that are not
    those written."""
    return Addition(path, _read(path, _stamps(path)))


def _stamps(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Names, sizes and times of change of an addition's files."""
    try:
        found = [(file.name, file.stat()) for file in sorted(path.iterdir())]
    except OSError as error:
        raise StoreError(f"addition {path.name} cannot be read ({error.strerror}).") from error
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)


@lru_cache(maxsize=1000)
def _read(path: Path, stamps: tuple[tuple[str, int, int], ...]) -> dict[str, Any]:
    try:
        meta = read_document(path / FILE, f"addition {path.name}", SCHEMA)
        if (meta["id"], meta["run"]) != (path.name, path.parent.name):
            raise StoreError(f"addition {path.name} is not where it was written.")
        hashes = {name: listed["sha256"] for name, listed in meta["tables"].items()}
        meta["created"], meta["asked"], meta["keys"], meta["numbered"]
        wrong = [
            name
            for name, written in hashes.items()
            if sha256_of(path / f"{safe_id(name)}.parquet") != written
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"addition {path.name} is damaged: its {FILE} or a table cannot be read."
        ) from error
    if wrong:
        raise StoreError(
            f"addition {path.name} is damaged: {', '.join(wrong)} has other bytes than were"
            " written."
        )
    return meta


def joined(
    name: str, own: pd.DataFrame | None, rows: Mapping[str, int], additions: Sequence[Addition]
) -> pd.DataFrame:
    """A table of a run with the rows of all additions. own: the run's, None where it has none;
    rows: how many rows the run's tables have, by name.

    Numbers that count the rows of a table go on where those before it end. Of rows that say the
    same thing (by the declared keys) the run's own counts, else the last that was added.
    """
    counted, parts = dict(rows), []
    keys: list[str] = []
    for addition in additions:
        if addition.has(name):
            table = addition.table(name)
            for column, of in addition.meta["numbered"].items():
                if column in table:
                    table[column] = table[column] + table[column].dtype.type(counted.get(of, 0))
            parts.append(table)
            keys = addition.meta["keys"].get(name) or keys
        for other, listed in addition.meta["tables"].items():
            counted[other] = counted.get(other, 0) + listed["rows"]
    if not parts:
        assert own is not None, "asked only for tables that are there"
        return own
    whole = pd.concat([*([] if own is None else [own]), *reversed(parts)], ignore_index=True)
    return whole.drop_duplicates(keys, ignore_index=True) if keys else whole

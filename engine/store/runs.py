"""Finished audits on disk: one folder each, tables as parquet, the rest in run.json."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import StoreError, refusal, refused_by_system
from engine.core.files import (
    ASSETS,
    UNFINISHED,
    explained,
    folder_whole,
    is_special,
    locked,
    make_folder,
    probe,
    safe_id,
    sha256_of,
)
from engine.core.types import Values, digest_of
from engine.store.sealed import DamagedError, PartialFit, Shards, read_document, write_document

# Tables as files, with what tells later that they are as they were written.


ROWS = 1 << 18
"""Rows of a table that are written in one go."""
AT_ONCE = 1 << 15
"""Rows of a table that are looked at in one go where only some of them are wanted."""
Where = Mapping[str, Sequence[Any]]
"""Which rows are wanted: what stands in some columns."""


@dataclass(frozen=True)
class Pieces:
    """A table too long to be held: its rows, and what makes it piece by piece, each with the same
    columns."""

    rows: int
    each: Callable[[], Iterator[pd.DataFrame]]

    def __len__(self) -> int:
        return self.rows


def write_tables(folder: Path, tables: Mapping[str, pd.DataFrame | Pieces]) -> Values:
    """Each table by its name as parquet, without its index; the number of rows and the hash of
    each, by name."""
    listed = {}
    for name, table in tables.items():
        path = folder / f"{safe_id(name, 'table name')}.parquet"
        if isinstance(table, Pieces):
            _write_pieces(path, table)
        else:
            table.to_parquet(path, compression="zstd", index=False, row_group_size=ROWS)
        listed[name] = {"rows": len(table), "sha256": sha256_of(path)}
    return listed


def _write_pieces(path: Path, pieces: Pieces) -> None:
    """About ROWS rows at a time; short tables as if they were whole."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: pq.ParquetWriter | None = None
    held: list[pd.DataFrame] = []
    try:
        for piece in chain(pieces.each(), (None,)):
            if held and (piece is None or sum(map(len, held)) + len(piece) > ROWS):
                frame = pd.concat(held, ignore_index=True)
                table = pa.Table.from_pandas(frame, preserve_index=False)
                writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
                writer.write_table(table, row_group_size=ROWS)
                held = []
            if piece is not None:
                held.append(piece)
    finally:
        if writer:
            writer.close()


def read_table(
    folder: Path,
    name: str,
    written: str,
    whose: str,
    where: Where | None = None,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """A table that `write_tables` wrote, its bytes compared with `written`, the hash that was noted
    then. All rows and columns, or the columns that are named and, in their order, the rows in whose
    columns one of the values stands that `where` lists. Others are held AT_ONCE at a time.

    `whose` names run or addition in what is said of a damaged one: DamagedError.
    """
    path = folder / f"{safe_id(name, 'table name')}.parquet"
    try:
        if is_special(path):
            raise ValueError("neither a file nor a folder")
        body = path.read_bytes()
        if hashlib.sha256(body).hexdigest() == written:
            return _read_rows(body, where, columns)
        why = "has other bytes than were written"
    except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        why = f"cannot be read ({refused_by_system(error)})"
    raise DamagedError(f"{whose} is damaged: its table {name} {why}. See `runs verify`.")


def _read_rows(body: bytes, where: Where | None, columns: Sequence[str] | None) -> pd.DataFrame:
    if where is None:
        return pd.read_parquet(io.BytesIO(body))
    import pyarrow as pa
    import pyarrow.dataset as ds

    file = ds.ParquetFileFormat().make_fragment(pa.BufferReader(body))
    wanted, schema = ds.scalar(True), file.physical_schema
    for column, values in where.items():
        wanted &= ds.field(column).isin(pa.array(list(values), schema.field(column).type))
    few = {"batch_size": AT_ONCE, "batch_readahead": 1, "use_threads": False}
    named = None if columns is None else list(columns)
    return file.to_table(columns=named, filter=wanted, **few).to_pandas()


def matching(
    table: pd.DataFrame, where: Where, columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """The same of a table that is held whole."""
    for column, values in where.items():
        table = table[table[column].isin(list(values))]
    table = table.reset_index(drop=True)
    return table if columns is None else table[list(columns)]


COLUMNS = ("name", "dtype", "shape", "data")
PLAIN = "__plain__"


def pack(arrays: Mapping[str, np.ndarray], plain: Values | None = None) -> pd.DataFrame:
    """Arrays and a few plain values as one table, so that weights can be kept like any measurement.

    One row per array: name, dtype, shape (JSON), data (bytes, C order); `plain` is JSON in a row
    of its own."""
    rows = []
    for name, given in arrays.items():
        array = np.asarray(given, order="C")
        rows.append((name, array.dtype.str, json.dumps(list(array.shape)), array.tobytes()))
    if plain is not None:
        text = json.dumps(plain, sort_keys=True, allow_nan=False).encode()
        rows.append((PLAIN, "json", json.dumps([len(text)]), text))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def unpack(table: pd.DataFrame) -> tuple[dict[str, np.ndarray], Values]:
    """The inverse of `pack`: (arrays by name with their own shape and dtype, plain values). Arrays
    are copies."""
    arrays, plain = {}, {}
    for row in table.itertuples(index=False):
        if row.name == PLAIN:
            plain = json.loads(bytes(row.data))
        else:
            flat = np.frombuffer(bytes(row.data), dtype=np.dtype(row.dtype))
            arrays[row.name] = flat.reshape(json.loads(row.shape)).copy()
    return arrays, plain


def where(table: pd.DataFrame, **wanted: Any) -> pd.DataFrame:
    """The rows of a table, of any columns, that have these values in the columns of these names."""
    keep = np.ones(len(table), dtype=bool)
    for column, value in wanted.items():
        keep &= (table[column] == value).to_numpy(dtype=bool, na_value=False)
    return table[keep]


def within(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Arrays whose name starts with `prefix`, under the rest of their name."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def curve_arrays(curve: Sequence[Values]) -> dict[str, np.ndarray]:
    """Rows of a training curve as one array per column, [rows], named curve/<column>.

    A column of words stays text, all else becomes float64.
    """
    table = pd.DataFrame(list(curve))
    words = {name for name, value in (curve[0] if curve else {}).items() if isinstance(value, str)}
    return {
        f"curve/{name}": table[name].to_numpy(dtype=str if name in words else np.float64)
        for name in table
    }


# What was added to a finished run: one folder per addition in the user's store, written whole or
# not at all.
#
# A run itself is never written again. Only labels, of which there is one addition per person, are
# replaced as they grow. STORE/additions/RUN/ADDITION holds addition.json and tables named as the
# run's own. An addition's id is a digest of the run, of what was asked and of the code that
# computed it. So who adds the same thing twice writes it once, and different things never meet.


FILE = "addition.json"


@dataclass(frozen=True)
class Addition:
    """A sound addition: its hashes were compared when it was read."""

    path: Path
    meta: Values
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


def id_of(run_id: str, asked: Values, versions: Mapping[str, int]) -> str:
    """The id of what is added to a run: digest of the run, what was asked (JSON-able) and the
    code's versions."""
    return digest_of([run_id, dict(asked), dict(versions)])[:16]


def write_addition(
    root: Path,
    run_id: str,
    addition_id: str,
    meta: Values,
    tables: Mapping[str, pd.DataFrame | Pieces],
) -> Path:
    """Write an addition unless a sound one of this id is there; its tables go as parquet, without
    their index.

    `meta` says what `Addition.meta` names. id, run, created and tables are filled in here, and that
    there are no notes and no numbered columns where it says nothing of them.
    """
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    usual = {"created": now, "notes": [], "numbered": {}}
    target = root / "additions" / safe_id(run_id) / safe_id(addition_id, "addition id")
    if is_sound(target):
        return target
    try:
        with folder_whole(target) as folder:
            listed = write_tables(folder, tables)
            write_document(
                folder / FILE,
                {**usual, **meta, "id": addition_id, "run": run_id, "tables": listed},
                SCHEMA,
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
        raise StoreError(
            f"addition {path.name} cannot be read ({refused_by_system(error)})."
        ) from error
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)


@lru_cache(maxsize=1000)
def _read(path: Path, stamps: tuple[tuple[str, int, int], ...]) -> Values:
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


SCHEMA = 2
RUN = "run.json"
RESTS_ON = "rests_on.json"
"""The shards a run was computed from: their hashes by key."""

EMBEDDED = ASSETS / "demo-run"


def is_demo(model: str) -> bool:
    """Whether a model of this name was made for the demo and lies in assets/."""
    return model.startswith("demo-")


@dataclass(frozen=True)
class RunSummary:
    """One line of a list of runs."""

    id: str
    title: str
    created: str
    model: str
    axes: tuple[str, ...]
    methods: tuple[str, ...]
    embedded: bool

    @property
    def is_demo(self) -> bool:
        """Whether it is an embedded audit of a model that was made for that."""
        return self.embedded and is_demo(self.model)


@dataclass(frozen=True)
class Run:
    """A finished audit. Tables are read when asked for; their columns are described in
    docs/TABLES.md."""

    path: Path
    additions: tuple[Path, ...] = ()
    """Folders of what was added to it since it was finished; damaged ones are left out of its
    tables."""
    called: str = ""
    """What its reader calls it, where that is not its own title."""
    ahead: str = ""
    """Digest of rows that its tables hold besides their own: what is predicted of a variant nobody
    measured."""

    @cached_property
    def meta(self) -> Values:
        """run.json. StoreError where it is damaged or of a newer version."""
        found = read_document(self.path / RUN, f"run {self.id}", SCHEMA)
        if found["id"] != self.id:
            raise DamagedError(
                f"run {self.id} is not where it was written: its {RUN} is that of {found['id']}."
            )
        if fault := _fault(found):
            raise DamagedError(f"run {self.id} is damaged: its {RUN} {fault}.")
        return {**found, "title": self.called} if self.called else found

    @cached_property
    def rests_on(self) -> dict[str, str]:
        """Hashes of the shards it was computed from, by key; empty where it rests on none."""
        path = self.path / RESTS_ON
        if not path.exists() and not self.meta.get("rests_on"):
            return {}
        found = read_document(path, f"run {self.id}", 1)
        if found.get("run") != self.id or len(found.get("shards", ())) != self.meta.get("rests_on"):
            raise DamagedError(f"run {self.id} is damaged: its {RESTS_ON} is another one's.")
        return dict(found["shards"])

    @property
    def request(self) -> Any:
        """What was asked, by the names of the request's fields."""
        return self.meta["request"]

    @property
    def model(self) -> Any:
        """What is known of the uncut model."""
        return self.meta["model"]

    @property
    def data(self) -> Any:
        """What is known of the data it was measured on."""
        return self.meta["data"]

    @property
    def n_units(self) -> int:
        """How many heads or filters its uncut model has."""
        found = self.model
        return int(found.get("n_filters") or found["n_layers"] * found["n_heads"])

    @property
    def id(self) -> str:
        return self.path.name

    @cached_property
    def _added(self) -> tuple[list[Addition], dict[str, str]]:
        """Sound additions, the first added first, and what is wrong with the others by id."""
        sound, damaged = [], {}
        for path in self.additions:
            try:
                sound.append(read_addition(path))
            except StoreError as error:
                damaged[path.name] = str(error)
        return sorted(sound, key=lambda one: (one.meta["created"], one.id)), damaged

    @property
    def added(self) -> list[Addition]:
        """What was added to the run and is sound, the first added first."""
        return self._added[0]

    @property
    def damaged_additions(self) -> dict[str, str]:
        """What is wrong with additions that are left out, by id."""
        return self._added[1]

    def has(self, name: str) -> bool:
        """Whether the run has a table of this name, from the start or since something was added."""
        return name in self.meta["tables"] or any(one.has(name) for one in self.added)

    @property
    def names(self) -> list[str]:
        """Names of all tables, sorted."""
        return sorted(
            {*self.meta["tables"], *(name for one in self.added for name in one.meta["tables"])}
        )

    def content(self, name: str) -> tuple[str, ...]:
        """Hashes of the files that a table is read from: equal ones mean equal rows. None for a
        table it has not."""
        listed = (
            [self.meta["tables"], *(one.meta["tables"] for one in self.added)]
            if self.has(name)
            else []
        )
        return tuple(tables[name]["sha256"] for tables in listed if name in tables)

    def table(self, name: str) -> pd.DataFrame:
        """One table, e.g. "results", with the rows of what was added; docs/TABLES.md lists the
        columns. Unknown names raise and list the known ones."""
        if not self.has(name):
            known = ", ".join(self.names)
            raise StoreError(f"run {self.id} has no table {name!r}. Known: {known}.")
        rows = {table: listed["rows"] for table, listed in self.meta["tables"].items()}
        own = self._own(name) if name in self.meta["tables"] else None
        return joined(name, own, rows, self.added)

    def rows(self, name: str) -> int:
        """How many rows a table of the run itself has; 0 where it has none."""
        return int(self.meta["tables"].get(name, {"rows": 0})["rows"])

    def part(self, name: str, where: Where, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The rows of a table in whose columns one of the values stands that `where` lists, and the
        columns that are named. The table is not held whole where nothing was added to it."""
        if name not in self.meta["tables"] or any(one.has(name) for one in self.added):
            return matching(self.table(name), where, columns)
        return self._own(name, where, columns)

    def _own(
        self, name: str, where: Where | None = None, columns: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """A table as the audit wrote it, or the part of it that is wanted."""
        written = self.meta["tables"][name]["sha256"]
        return read_table(self.path, name, written, f"run {self.id}", where, columns)

    @property
    def summary(self) -> RunSummary:
        meta = self.meta
        return RunSummary(
            id=self.id,
            title=meta["title"],
            created=meta["created"],
            model=meta["model"]["name"],
            axes=tuple(meta["request"].get("axes", ())),
            methods=tuple(meta["request"].get("methods", ())),
            embedded=self.path.parent.parent == EMBEDDED,
        )


class Store:
    """Runs and shards below one folder. Reading never creates anything."""

    def __init__(self, root: Path | str, read_only: bool = False) -> None:
        self.root = Path(root).expanduser().absolute()
        self.read_only = read_only

    @property
    def runs_folder(self) -> Path:
        return self.root / "runs"

    @property
    def jobs_folder(self) -> Path:
        return self.root / "jobs"

    @property
    def shards(self) -> Shards:
        return Shards(self.root / "shards")

    def partial(self, key: str) -> PartialFit:
        """Where the state of an unfinished fit is kept."""
        return PartialFit(self.root / "partial", key)

    def ids(self) -> list[str]:
        """Ids of all finished runs, ascending, damaged ones too."""
        return sorted(path.parent.name for path in self.runs_folder.glob("[!.]*/run.json"))

    def damaged(self) -> dict[str, str]:
        """Why, by id, runs cannot be shown: damaged, or of a newer version."""
        return self._read()[1]

    def _read(self) -> tuple[list[RunSummary], dict[str, str]]:
        found = []
        damaged = {}
        for run_id in self.ids():
            try:
                found.append(Run(self.runs_folder / run_id, called=self.title_of(run_id)).summary)
            except StoreError as error:
                damaged[run_id] = str(error)
        return found, damaged

    def list(self) -> list[RunSummary]:
        """Finished runs, newest first; damaged ones are left out.

        Of the embedded ones those of real models come first, then the oldest, so that the app opens
        on the same one.
        """
        found = sorted(self._read()[0], key=lambda one: one.created, reverse=not self.read_only)
        return sorted(found, key=lambda one: one.is_demo)

    @contextlib.contextmanager
    def alone(self, run_id: str, check: Callable[[], None]) -> Iterator[None]:
        """Within it no other process computes this run; waits for one that does, calling `check`
        meanwhile."""
        folder = self.root / "locks"
        with explained(folder):
            make_folder(folder)
            (folder / safe_id(run_id)).touch()
        with locked(folder / run_id, check):
            yield

    def has(self, run_id: str) -> bool:
        return (self.runs_folder / safe_id(run_id) / RUN).is_file()

    def open(self, run_id: str) -> Run:
        """The run itself. An id that is not there raises RequestError and lists the known ones."""
        if not self.has(run_id):
            known = ", ".join(self.ids()) or "none yet"
            raise refusal("run", f"{run_id!r} is not in the store {self.root}.", f"Known: {known}.")
        return _with_all(self.runs_folder / run_id, [self])

    def additions(self, run_id: str) -> tuple[Path, ...]:
        """Folders of what this store holds beside a run, wherever the run itself is, damaged ones
        too."""
        found = (self.root / "additions" / run_id).glob("[!.]*")
        return tuple(sorted(path for path in found if path.is_dir()))

    def write(
        self,
        run_id: str,
        meta: Values,
        tables: Mapping[str, pd.DataFrame | Pieces],
        shards: Mapping[str, str] | None = None,
    ) -> Run:
        """Write a finished run, whole or not at all: each table by its name as parquet, without its
        index.

        `meta` gets the list of tables with their hashes; `shards` are those it was computed from,
        their hashes by key.
        """
        target = self.runs_folder / safe_id(run_id)
        with folder_whole(target) as folder:
            listed = write_tables(folder, tables)
            write_meta(folder, {**meta, "id": run_id, "tables": listed}, shards or {})
        return Run(target)

    def title_path(self, run_id: str) -> Path:
        return self.root / "titles" / f"{safe_id(run_id)}.json"

    def title_of(self, run_id: str) -> str:
        """What the store calls a run; "" where it says nothing, or nothing that can be read: the
        run's own title serves."""
        path = self.title_path(run_id)
        with contextlib.suppress(StoreError):
            if path.is_file():
                found = read_document(path, f"title of {run_id}", TITLE_SCHEMA)
                return str(found.get("title") or "")
        return ""

    def rename(self, run_id: str, title: str) -> str:
        """Call a run something else from now on; the title as it is kept. An empty one gives the
        run its own name back."""
        plain = "".join(letter if letter.isprintable() else " " for letter in title)
        kept = " ".join(plain.split())
        if len(kept) > LONGEST:
            raise refusal("title", f"has {len(kept)} characters.", f"Use at most {LONGEST}.")
        path = self.title_path(run_id)
        with explained(self.root):
            if not kept:
                path.unlink(missing_ok=True)
                return ""
            make_folder(path.parent)
        write_document(path, {"run": run_id, "title": kept}, TITLE_SCHEMA)
        return kept

    def favour(self, run_id: str, wanted: bool) -> None:
        """Count a run, wherever it lies, among a person's favourites, or no longer."""
        path = self.root / FAVOURITES / safe_id(run_id)
        with explained(self.root):
            make_folder(path.parent)
            if wanted:
                path.touch()
            else:
                path.unlink(missing_ok=True)

    def favourites(self) -> set[str]:
        """Ids of the favourites; some may be gone."""
        folder = self.root / FAVOURITES
        with explained(self.root):
            return {path.name for path in folder.iterdir()} if folder.is_dir() else set()

    def delete(self, run_id: str) -> RunSummary | None:
        """Move a run of this store to STORE/trash/RUN; what it was, None where it cannot be read.
        Damaged runs can go too. Title and additions stay where they are for an undo.

        RequestError for one that is not there, or not the user's own.
        """
        if self.read_only:
            what = f"{run_id!r} comes with the program and cannot be deleted."
            raise refusal("run", what, "Only audits of your own store can.")
        run, target = self.open(run_id), self.root / "trash" / safe_id(run_id)
        summary = _readable(run)
        with explained(self.root):
            make_folder(target.parent)
            if target.exists():
                shutil.rmtree(target)  # the same audit, deleted before
            run.path.rename(target)
        return summary

    def restore(self, run_id: str) -> Run:
        """Bring a deleted run back. RequestError where it is not in the trash, or was computed
        again meanwhile."""
        source, target = self.root / "trash" / safe_id(run_id), self.runs_folder / run_id
        if not (source / RUN).is_file():
            known = ", ".join(self.deleted()) or "nothing"
            what = f"{run_id!r} is not in the trash of {self.root}."
            raise refusal("run", what, f"There is: {known}.")
        if target.exists():
            fix = "It was computed anew since it was deleted."
            raise refusal("run", f"{run_id!r} is there again.", fix)
        with explained(self.root):
            make_folder(target.parent)
            source.rename(target)
        return self.open(run_id)

    def deleted(self) -> dict[str, RunSummary | None]:
        """What is in the trash, by id; None for what cannot be read."""
        paths = sorted(path.parent for path in (self.root / "trash").glob(f"[!.]*/{RUN}"))
        return {path.name: _readable(Run(path)) for path in paths}

    def prove_writable(self, create: bool = True) -> None:
        """Fail now rather than after an hour: full, read-only and forbidden stores raise
        StoreError.

        create=False leaves nothing behind: where the store is not there yet, its nearest folder is
        tried.
        """
        with explained(self.root):
            if create:
                make_folder(self.root)
            probe(self.root)


def write_meta(folder: Path, meta: Values, shards: Mapping[str, str]) -> None:
    """run.json, sealed, into the folder of a run that is being written, and which shards it rests
    on."""
    write_document(folder / RUN, {**meta, **({"rests_on": len(shards)} if shards else {})}, SCHEMA)
    if shards:
        write_document(folder / RESTS_ON, {"run": meta["id"], "shards": dict(shards)}, 1)


def damaged_tables(run: Run) -> list[str]:
    """Names of tables whose bytes are not those that were written."""
    listed = run.meta["tables"]
    paths = {name: run.path / f"{name}.parquet" for name in listed}
    return [
        name
        for name, path in paths.items()
        if not path.is_file() or sha256_of(path) != listed[name]["sha256"]
    ]


def default_root() -> Path:
    """$PRUNEAUDIT_STORE, else the user's data folder."""
    if os.environ.get("PRUNEAUDIT_STORE"):
        return Path(os.environ["PRUNEAUDIT_STORE"]).expanduser()
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "pruneaudit"


def default_stores() -> list[Store]:
    """Where the screens look: the user's own store, then the embedded demo (read-only)."""
    return [Store(default_root()), Store(EMBEDDED, read_only=True)]


def as_called(found: Iterable[RunSummary], stores: list[Store]) -> list[RunSummary]:
    """Lines of a list of runs with what any of the stores calls them: names of embedded runs lie in
    the user's."""
    return [replace(one, title=called(stores, one.id) or one.title) for one in found]


def run_in(store: Store, run_id: object) -> Run:
    """A run of a store, or an embedded one; RequestError as of `find_run`."""
    return find_run(str(run_id or ""), [store, Store(EMBEDDED, read_only=True)])


def find_run(run_id: str, stores: list[Store]) -> Run:
    """The run from the first store that has it, with what any of them holds beside it."""
    for store in stores:
        if store.has(run_id):
            return _with_all(store.runs_folder / run_id, stores)
    known = ", ".join(known_id for store in stores for known_id in store.ids()) or "none yet"
    raise refusal("run", f"{run_id!r} is in no store.", f"Known: {known}.")


def open_run(id_or_path: str | Path) -> Run:
    """A finished run: by its folder, or by its id from the user's own store or the embedded
    ones."""
    path = Path(id_or_path).expanduser().absolute()
    if (path / RUN).is_file():
        return _with_all(path, [Store(path.parent.parent), *default_stores()])
    return find_run(str(id_or_path), default_stores())


def _with_all(path: Path, stores: Sequence[Store]) -> Run:
    """The run in a folder, with what any of the stores holds beside it and calls it."""
    beside = dict.fromkeys(added for store in stores for added in store.additions(path.name))
    return Run(path, tuple(beside), called(stores, path.name))


# Titles: what a person calls an audit, STORE/titles/RUN.json, beside the run and never in it. They
# lie in the user's store wherever the run lies, so that the embedded audits can be renamed too.


FAVOURITES = "favourites"
"""STORE/favourites/RUN, empty files."""
TITLE_SCHEMA = 1
LONGEST = 200
"""Characters of a title."""


def called(stores: Iterable[Store], run_id: str) -> str:
    """What the first of several stores that has a name for a run calls it; "" where none has."""
    return next(filter(None, (store.title_of(run_id) for store in stores)), "")


def _readable(run: Run) -> RunSummary | None:
    try:
        return run.summary
    except StoreError:
        return None


def _fault(meta: Values) -> str:
    """What a run.json must hold for a list of runs and is not there; "" where all is."""
    kinds = {
        "title": ("words", str),
        "created": ("a time", str),
        "model": ("fields", dict),
        "request": ("fields", dict),
        "tables": ("fields", dict),
    }
    wrong = [
        f"{name} ({kind})"
        for name, (kind, type_) in kinds.items()
        if not isinstance(meta.get(name), type_)
    ]
    if wrong:
        return f"lacks {', '.join(wrong)}"
    if not isinstance(meta["model"].get("name"), str):
        return "names no model"
    for name in ("axes", "methods"):
        listed = meta["request"].get(name, [])
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            return f"lists no {name}"
    listed = meta["tables"].values()
    sound = all(
        isinstance(one, dict) and isinstance(one.get("sha256"), str) and "rows" in one
        for one in listed
    )
    return "" if sound else "lists tables without hashes"

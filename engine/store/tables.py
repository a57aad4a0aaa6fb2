"""Tables as files, with what tells later that they are as they were written."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.core.files import is_special, safe_id, sha256_of
from engine.core.types import Values
from engine.store.sealed import DamagedError

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

    def frame(self) -> pd.DataFrame:
        """All of it at once."""
        return pd.concat(list(self.each()), ignore_index=True)


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


def read_table(folder: Path, name: str, written: str, whose: str) -> pd.DataFrame:
    """A table that `write_tables` wrote, its bytes compared with `written`, the hash that was noted
    then.

    `whose` names run or addition in what is said of a damaged one: DamagedError.
    """
    return _read(folder, name, written, whose, pd.read_parquet)


def read_part(
    folder: Path,
    name: str,
    written: str,
    whose: str,
    where: Where,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """The rows of a table, in its order, in whose columns one of the values stands that `where`
    lists; all columns, or those that are named. As `read_table`, but no more than AT_ONCE other
    rows are held at a time.
    """
    return _read(folder, name, written, whose, lambda file: _part(file, where, columns))


def _part(file: io.BytesIO, where: Where, columns: Sequence[str] | None) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    whole = pq.ParquetFile(file)
    schema = whole.schema_arrow
    names = None if columns is None else list(dict.fromkeys([*columns, *where]))
    found = []
    for batch in whole.iter_batches(batch_size=AT_ONCE, columns=names):
        for column, values in where.items():
            wanted = pa.array(list(values), schema.field(column).type)
            batch = batch.filter(pc.is_in(batch[column], value_set=wanted))
        found.append(batch)
    kept = schema if names is None else pa.schema([schema.field(name) for name in names])
    table = pa.Table.from_batches(found, found[0].schema if found else kept)
    table = table.replace_schema_metadata(schema.metadata)
    return (table if columns is None else table.select(list(columns))).to_pandas()


def matching(
    table: pd.DataFrame, where: Where, columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """The same of a table that is held whole."""
    for column, values in where.items():
        table = table[table[column].isin(list(values))]
    table = table.reset_index(drop=True)
    return table if columns is None else table[list(columns)]


def _read(
    folder: Path, name: str, written: str, whose: str, read: Callable[[io.BytesIO], pd.DataFrame]
) -> pd.DataFrame:
    """What `read` makes of a table's file; see `read_table`."""
    path = folder / f"{safe_id(name, 'table name')}.parquet"
    try:
        if is_special(path):
            raise ValueError("neither a file nor a folder")
        body = path.read_bytes()
        if hashlib.sha256(body).hexdigest() == written:
            return read(io.BytesIO(body))
        why = "has other bytes than were written"
    except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        why = f"cannot be read ({getattr(error, 'strerror', None) or error})"
    raise DamagedError(f"{whose} is damaged: its table {name} {why}. See `runs verify`.")


COLUMNS = ("name", "dtype", "shape", "data")
PLAIN = "__plain__"


def pack(arrays: Mapping[str, np.ndarray], plain: Values | None = None) -> pd.DataFrame:
    """Arrays and a few plain values as one table, so that weights can be kept like any measurement.

    One row per array: name, dtype, shape (JSON), data (bytes, C order); `plain` is JSON in a row
    of its own."""
    rows: list[tuple[str, str, str, bytes]] = []
    for name, given in arrays.items():
        array = np.asarray(given, order="C")
        rows.append((name, array.dtype.str, json.dumps(list(array.shape)), array.tobytes()))
    if plain is not None:
        text = json.dumps(plain, sort_keys=True, allow_nan=False).encode()
        rows.append((PLAIN, "json", json.dumps([len(text)]), text))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def unpack(table: pd.DataFrame) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
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
    for column, value in wanted.items():
        table = table[table[column] == value]
    return table


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

"""Tables as files, with what tells later that they are as they were written."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.files import safe_id, sha256_of
from engine.store.sealed import DamagedError


def write_tables(folder: Path, tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Each table by its name as parquet, without its index; the number of rows and the hash of each, by name."""
    listed = {}
    for name, table in tables.items():
        path = folder / f"{safe_id(name, 'table name')}.parquet"
        table.to_parquet(path, compression="zstd", index=False)
        listed[name] = {"rows": len(table), "sha256": sha256_of(path)}
    return listed


def read_table(folder: Path, name: str, written: str, whose: str) -> pd.DataFrame:
    """A table that `write_tables` wrote, its bytes compared with `written`, the hash that was noted then.

    `whose` names run or addition in what is said of a damaged one: DamagedError.
    """
    try:
        body = (folder / f"{safe_id(name, 'table name')}.parquet").read_bytes()
        if hashlib.sha256(body).hexdigest() == written:
            return pd.read_parquet(io.BytesIO(body))
        why = "has other bytes than were written"
    except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        why = f"cannot be read ({getattr(error, 'strerror', None) or error})"
    raise DamagedError(f"{whose} is damaged: its table {name} {why}. See `runs verify`.")

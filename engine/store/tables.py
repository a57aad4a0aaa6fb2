"""Tables as files, with what tells later that they are as they were written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.files import safe_id, sha256_of


def write_tables(folder: Path, tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Each table by its name as parquet, without its index; the number of rows and the hash of each, by name."""
    listed = {}
    for name, table in tables.items():
        path = folder / f"{safe_id(name, 'table name')}.parquet"
        table.to_parquet(path, compression="zstd", index=False)
        listed[name] = {"rows": len(table), "sha256": sha256_of(path)}
    return listed

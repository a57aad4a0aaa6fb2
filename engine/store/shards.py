"""Finished parts of long work, found again by what they were computed from.

A shard's key is the digest of everything its numbers depend on (weights, mask, prompts, decoding,
judge, seed, code version of the method), so two requests that need the same part compute it once,
and a killed run goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.files import write_whole
from engine.core.types import digest_of


class Shards:
    """Content-addressed tables below one folder. `None` as folder keeps nothing (for tests and one-off use)."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._sound: set[str] = set()

    def path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key}.parquet"

    def get(self, key: str) -> pd.DataFrame | None:
        """The finished table with the columns it was put with, or None. A damaged file counts as not finished."""
        if self.folder is None or not self.path(key).exists():
            return None
        try:
            return pd.read_parquet(self.path(key))
        except (OSError, ValueError):  # pyarrow's ArrowInvalid is a ValueError
            return None

    def has(self, key: str) -> bool:
        """Whether `get` would find it. Read once, then remembered for the life of the object."""
        if key not in self._sound and self.get(key) is not None:
            self._sound.add(key)
        return key in self._sound

    def put(self, key: str, table: pd.DataFrame) -> None:
        """Keep a finished table under its key, any columns, without its index."""
        if self.folder is not None:
            write_whole(self.path(key), lambda temporary: table.to_parquet(temporary, compression="zstd", index=False))
            self._sound.add(key)

    def once(self, parts: dict[str, Any], compute: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """The table computed from `parts`, from disk when it is there. `parts` must be JSON-able."""
        key = digest_of(parts)
        table = self.get(key)
        if table is None:
            table = compute()
            self.put(key, table)
        return table

"""Arrays and a few plain values as one table, so that weights and masks can be kept like any other
measurement."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

COLUMNS = ("name", "dtype", "shape", "data")
PLAIN = "__plain__"


def pack(arrays: Mapping[str, np.ndarray], plain: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """One row per array: name, dtype, shape (JSON), data (bytes, C order); `plain` is JSON in a row
    of its own."""
    rows = [_row(name, np.asarray(array, order="C")) for name, array in arrays.items()]
    if plain is not None:
        text = json.dumps(plain, sort_keys=True, allow_nan=False).encode()
        rows.append((PLAIN, "json", json.dumps([len(text)]), text))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(name: str, array: np.ndarray) -> tuple[str, str, str, bytes]:
    """One row of the table: name, dtype, shape as JSON, bytes in C order."""
    return name, array.dtype.str, json.dumps(list(array.shape)), array.tobytes()


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


def within(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Arrays whose name starts with `prefix`, under the rest of their name."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def curve_arrays(curve: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Rows of a training curve as one array per column, [rows], named curve/<column>.

    A column of words stays text, all else becomes float64.
    """
    table = pd.DataFrame(list(curve))
    words = {name for name, value in (curve[0] if curve else {}).items() if isinstance(value, str)}
    return {
        f"curve/{name}": table[name].to_numpy(dtype=str if name in words else np.float64)
        for name in table
    }

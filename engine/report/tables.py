"""The run's tables as CSV, parquet and JSON, with the run's own description."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.text import cell, harmless, json_text
from engine.store.runs import Run

HIDDEN = "[text left out; export with texts to see it]"
TEXTS = {"texts": ("text", "text_b"), "lens": ("tokens",), "benchmark_items": ("prefix", "text")}
"""Columns with words a model or a user wrote, by table."""


def write_tables(run: Run, folder: Path, show_offensive: bool = False) -> list[Path]:
    """Each table three ways plus run.json. Texts are left out unless asked for.

    In the CSV files a text that a spreadsheet would run as a formula gets a leading apostrophe.
    Bytes (pictures, weights) are in the parquet file; CSV and JSON say how many there are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "run.json"]
    written[0].write_text(
        json_text(run.meta, indent=2, sort_keys=True, allow_nan=True) + "\n", encoding="utf-8"
    )
    for name in run.names:
        table = shown(run.table(name), name, show_offensive)
        paths = [folder / f"{name}.{kind}" for kind in ("csv", "parquet", "json")]
        table.to_parquet(paths[1], compression="zstd", index=False)
        readable = without_bytes(table)
        write_csv(readable, paths[0])
        readable.to_json(paths[2], orient="records", force_ascii=True, double_precision=10)
        written += paths
    return written


def shown(table: pd.DataFrame, name: str, show_offensive: bool) -> pd.DataFrame:
    """The table as exported: texts only when asked for."""
    columns = (
        () if show_offensive else [column for column in TEXTS.get(name, ()) if column in table]
    )
    return table.assign(**dict.fromkeys(columns, HIDDEN))


def without_bytes(table: pd.DataFrame) -> pd.DataFrame:
    """Columns of bytes as their number."""
    binary = [name for name in table if len(table) and isinstance(table[name].iat[0], bytes)]
    return table.assign(**{name: table[name].map(len) for name in binary})


def for_spreadsheets(table: pd.DataFrame) -> pd.DataFrame:
    """Names and text cells as a spreadsheet may be given them (see `cell`); numbers stay
    numbers."""
    return _each(table, cell)


def for_screens(table: pd.DataFrame) -> pd.DataFrame:
    """Names and text cells without what steers or hides; numbers stay numbers."""
    return _each(table, harmless)


def _each(table: pd.DataFrame, change: Callable[[Any], Any]) -> pd.DataFrame:
    texts = [column for column in table if not pd.api.types.is_numeric_dtype(table[column])]
    return table.assign(**{column: table[column].map(change) for column in texts}).rename(
        columns=change
    )


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """A table for spreadsheets, without its index: every CSV file that leaves is written here."""
    for_spreadsheets(table).to_csv(path, index=False)


def holding(rows: pd.DataFrame, columns: Sequence[str], text: str) -> pd.DataFrame:
    """Rows with the text in one of the columns, whatever its capitals; all where it is empty."""
    there = [rows[name].astype(str) for name in columns if name in rows]
    found = [one.str.contains(text, case=False, regex=False) for one in there]
    return rows[reduce(or_, found)] if text else rows

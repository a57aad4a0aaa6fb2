"""The run's tables as CSV, parquet and JSON, with the run's own description."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from engine.store.runs import Run

HIDDEN = "[text left out; export with texts to see it]"
TEXTS = {"texts": ("text", "text_b"), "lens": ("tokens",)}
"""Columns with words a model or a user wrote, by table."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_tables(run: Run, folder: Path, show_offensive: bool = False) -> list[Path]:
    """Each table three ways plus run.json. Texts are left out unless asked for.

    In the CSV files a text that a spreadsheet would run as a formula gets a leading apostrophe. Bytes (pictures,
    weights) are in the parquet file; CSV and JSON say how many there are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "run.json"]
    written[0].write_text(json.dumps(run.meta, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    for name in sorted(run.meta["tables"]):
        table = shown(run.table(name), name, show_offensive)
        paths = [folder / f"{name}.{kind}" for kind in ("csv", "parquet", "json")]
        table.to_parquet(paths[1], compression="zstd", index=False)
        readable = without_bytes(table)
        for_spreadsheets(readable).to_csv(paths[0], index=False)
        readable.to_json(paths[2], orient="records", force_ascii=False, double_precision=10)
        written += paths
    return written


def shown(table: pd.DataFrame, name: str, show_offensive: bool) -> pd.DataFrame:
    """The table as exported: texts only when asked for."""
    columns = () if show_offensive else [column for column in TEXTS.get(name, ()) if column in table]
    return table.assign(**dict.fromkeys(columns, HIDDEN))


def without_bytes(table: pd.DataFrame) -> pd.DataFrame:
    """Columns of bytes as their number."""
    binary = [name for name in table if len(table) and isinstance(table[name].iat[0], bytes)]
    return table.assign(**{name: table[name].map(len) for name in binary})


def for_spreadsheets(table: pd.DataFrame) -> pd.DataFrame:
    """Text cells that begin like a formula are quoted with an apostrophe; numbers stay numbers."""
    texts = [column for column in table if not pd.api.types.is_numeric_dtype(table[column])]
    return table.assign(**{column: table[column].map(_harmless) for column in texts})


def _harmless(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell

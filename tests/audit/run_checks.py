"""What is asked of the tables of a run, whatever its track."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from engine.cli import parser
from engine.cli.audit import request_of_words
from engine.store.runs import Run


def assert_tables(run: Run, columns: Mapping[str, str]) -> None:
    """Exactly these tables, none empty, each with its columns (their names in one string)."""
    assert set(run.meta["tables"]) == set(columns)
    for name, names in columns.items():
        table = run.table(name)
        assert set(names.split()) <= set(table.columns), name
        assert len(table), name


def value_of(
    results: pd.DataFrame, variant: str, metric: str, axis: str = "", group: str | None = None
) -> float:
    """The one value of a results or groups table."""
    rows = results[
        (results["variant"] == variant) & (results["metric"] == metric) & (results["axis"] == axis)
    ]
    return (rows if group is None else rows[rows["group"] == group])["value"].item()


def small_audit(track: str, folder: Path) -> list[str]:
    """Words of the smallest audit of a track; what it reads is written into `folder`."""
    return importlib.import_module(f"tests.tracks.{track}.worlds").small_audit(folder)


def smallest_request(track: str, folder: Path) -> Any:
    """The request of the same."""
    return request_of_words(parser().parse_args(small_audit(track, folder)))

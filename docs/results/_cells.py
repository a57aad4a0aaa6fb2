"""What every table is made of: cells with an interval, rows, and the row of a table that is
meant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of the document."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def only(table: pd.DataFrame, **wanted: Any) -> Mapping[str, Any]:
    """The one row with these values."""
    rows = table
    for name, value in wanted.items():
        rows = rows[rows[name] == value]
    (row,) = rows.to_dict("records")
    return row


def level(row: Mapping[str, Any], name: str = "value") -> str:
    """0.123 [0.100, 0.150]"""
    low, high = ("low", "high") if name == "value" else (f"{name}_low", f"{name}_high")
    return f"{row[name]:.3f} [{row[low]:.3f}, {row[high]:.3f}]"


def change(row: Mapping[str, Any], name: str = "delta") -> str:
    """+0.123 [+0.100, +0.150]; "" where there is none."""
    low, high = ("low", "high") if name == "value" else (f"{name}_low", f"{name}_high")
    if math.isnan(row[name]):
        return ""
    return f"{row[name]:+.3f} [{row[low]:+.3f}, {row[high]:+.3f}]".replace("-", "−")

"""What a chart's columns are called and how their values are said: declared once, read by its table
and its hover."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.core import words


@dataclass(frozen=True)
class Column:
    """A column of a run's table: its name there, its title for people, and how a value of it is
    said."""

    name: str
    title: str
    said: Callable[[Any], Any] | None = None


def titled(titles: Mapping[str, str] | None = None, /, **more: str) -> tuple[Column, ...]:
    """Columns by name whose values are shown as they are."""
    return tuple(Column(name, title) for name, title in {**(titles or {}), **more}.items())


def group_or(whole: str) -> Callable[[str], str]:
    """How a subgroup is said where "" means everything; in quotes where it is called as everything
    is."""

    def said(group: str) -> str:
        name = words.group_name(group)
        return (words.quoted(group) if name.casefold() == whole else name) if group else whole

    return said


METHOD = Column("method", "method", words.method_name)
BASE = Column("base", "method", words.method_name)
GROUP = Column("group", "subgroup", words.group_name)
MEASURE = Column("metric", "measure", words.metric_name)
VALUE = titled(value="value", low="low", high="high")
DIFFERENCE = titled(value="difference", low="low", high="high")
GROUP_NULL = {
    "group_null_low": "group null low",
    "group_null_high": "group null high",
    "group_null_p": "p, group null",
}
NULL = titled(null_low="null low", null_high="null high", **GROUP_NULL)
CHANGE = titled(delta="change", delta_low="change low", delta_high="change high")


def readable(table: pd.DataFrame, columns: Iterable[Column]) -> pd.DataFrame:
    """The table with those of the columns that it has, in their order, under titles and with values
    for people."""
    known = [column for column in columns if column.name in table]
    said = {column.name: table[column.name].map(column.said) for column in known if column.said}
    shown = table.assign(**said)[[column.name for column in known]]
    return shown.rename(columns={column.name: column.title for column in known})

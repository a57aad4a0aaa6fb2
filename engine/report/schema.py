"""What the columns of a run's tables mean: their word, and how a value is said.

Declared once for all tables. Readable tables, hovers of charts and heads of CSV files come from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.core import words
from engine.report import phrasing
from engine.report.charts.panel import plain

Said = Callable[[Any], Any]


@dataclass(frozen=True)
class Column:
    """A column of a run's table: its name there, its title for people, and how a value of it is
    said."""

    name: str
    title: str
    said: Said | None = None


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


TITLES = {
    "base": "method",
    "group": "subgroup",
    "metric": "measure",
    "units": "of",
    "parameters_cut": "share of parameters cut",
    "volume": "hypervolume",
    "sparsity": "share asked",
    "realised": "share cut",
    "speedup": "target speedup",
    "achieved": "achieved speedup",
    "strength": "λ",
    "delta": "change",
    "std": "standard deviation",
    "full_mean": "full model's mean",
    "full_std": "full model's standard deviation",
    "gap": "accuracy gap",
    "net": "net share",
    "surrogate_gap": "surrogate gap",
    "degradation": "degradation gap",
    "other": "against",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "n_seeds": "seeds",
    "n_trials": "trials",
    "n_masks": "random masks",
    "n_heads": "heads",
    "n_cut": "heads cut",
    "n_texts": "texts scored",
    "n_constant": "texts without variation",
    "null": "null band",
    "null_low": "null low",
    "null_high": "null high",
    "group_null": "group null band",
    "group_null_low": "group null low",
    "group_null_high": "group null high",
    "delta_p": "p of change",
    "quality": "accuracy",
    "run": "audit",
    "value_dense": "before",
    "low_dense": "before low",
    "high_dense": "before high",
    "front": "on the front",
    "null_p": "p against null",
    "group_null_p": "p, group null",
    "iterations": "weight updates",
    "step": "weight updates",
    "val_loss": "validation loss",
    "state": "ticket",
    "stage": "weights",
    "on_front": "on the front",
}
"""Titles of columns; another column is called as it is named, with blanks for underscores."""

NAMES: dict[str, Said] = {
    "method": words.method_name,
    "base": words.method_name,
    "axis": words.axis_name,
    "group": words.group_name,
    "metric": words.metric_name,
}
"""How names in a column are said to people."""


def _percent(value: float) -> str:
    return phrasing.percent(round(float(value), 3))


UNITS: dict[str, Said] = {
    **dict.fromkeys(("sparsity", "realised", "percentile", "share", "t"), _percent),
    **dict.fromkeys(("speedup", "achieved", "target", "theoretical"), phrasing.factor),
    **dict.fromkeys(("pearson", "spearman"), phrasing.correlation),
    "strength": lambda value: f"{value:g}",
    "seconds": words.duration,
    "delta": phrasing.signed,
}
"""How a number of a column is said in a hover; others with three digits, whole ones as they are."""


ENDS = {"low": "low", "high": "high", "target": "stated"}


def title_of(name: str) -> str:
    """A column in words; the ends of an interval are called as the value between them is."""
    stem, _, end = name.rpartition("_")
    if name in TITLES or not stem:
        return TITLES.get(name, name)
    if end in ENDS:
        return f"{title_of(stem)} {ENDS[end]}"
    if name.startswith("total_"):
        return f"{title_of(name.removeprefix('total_'))} in all"
    return name.replace("_", " ")


def readable(
    table: pd.DataFrame, columns: str | Iterable[Column], **own: str | Said
) -> pd.DataFrame:
    """The table with those of the columns that it has, in their order, under titles and with names
    for people.

    columns: their names, apart by blanks. own: what a table calls one of them, or how it says the
    names in it, where that is not what the schema says.
    """
    if isinstance(columns, str):
        columns = [_column(name, own.get(name)) for name in columns.split()]
    known = [column for column in columns if column.name in table]
    said = {column.name: table[column.name].map(column.said) for column in known if column.said}
    shown = table.assign(**said)[[column.name for column in known]]
    return shown.rename(columns={column.name: column.title for column in known})


def _column(name: str, own: str | Said | None) -> Column:
    title = own if isinstance(own, str) else title_of(name)
    return Column(name, title, own if callable(own) else NAMES.get(name))


def hovers(table: pd.DataFrame, columns: str, **own: str | Said) -> list[str]:
    """A text per row for a chart's points: the first column bold, then a line for each that is
    known; a value with its interval, where the table has one.

    columns, own: as of `readable`; "null" is the null band.
    """
    lines = [
        [_line(row, name, own.get(name)) for name in columns.split()]
        for row in table.to_dict("records")
    ]
    return ["<br>".join([f"<b>{first}</b>", *filter(None, rest)]) for first, *rest in lines]


def _line(row: Mapping[str, Any], name: str, own: str | Said | None) -> str:
    """A column's value in a hover, a number after its title; "" where it is not known."""
    value, said = row.get(name), own if callable(own) else NAMES.get(name, str)
    if callable(own) or isinstance(value, str):
        return plain(str(said(value)))
    how, title = UNITS.get(name, _number), own or title_of(name)
    start = name if f"{name}_low" in row else ""
    ends = [row.get(f"{start}_{end}".strip("_"), math.nan) for end in ("low", "high")]
    known = (start or name == "value") and all(map(math.isfinite, ends))
    span = " to ".join(map(how, ends)) if known else ""
    if value is None:
        return f"{title} {span}" if span else ""
    zero = ", includes zero" if name == "delta" and ends[0] <= 0 <= ends[1] else ""
    number = f"{title} {how(value)}" + (f" ({span}{zero})" if span else "")
    return number if math.isfinite(value) else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else phrasing.number(value)

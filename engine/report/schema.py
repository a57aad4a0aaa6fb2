"""What the columns of a run's tables mean: their word, and how a value is said.

Declared once for all tables. Readable tables, hovers of charts and heads of CSV files come from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd

from engine.core import words
from engine.core.types import Values
from engine.report import phrasing
from engine.report.charts.panel import wrapped

Said = Callable[[Any], Any]


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
    "bytes": "share of bytes",
    "time": "share of time",
    "ratio": "perplexity over dense",
    "pair_with": "compared with",
    "pair_as_much": "takes as much",
    "pair_delta": "bias minus that",
    "pair_null": "exchanged",
    "pair_null_q": "q",
    "front": "on the front",
    "null_p": "p against null",
    "group_null_p": "p, group null",
    "iterations": "weight updates",
    "step": "weight updates",
    "val_loss": "validation loss",
    "state": "ticket",
    "stage": "weights",
    "on_front": "on the front",
    "home": "change at home, %",
    "away": "change there, %",
    "arrives": "share that arrives",
    "random": "share, random cuts",
    "n_told": "random cuts with a change at home",
    "n_random": "random cuts",
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
    **dict.fromkeys(
        [
            "sparsity",
            "realised",
            "percentile",
            "share",
            "t",
            "bytes",
            "time",
            "flipped",
            "arrives",
            "random",
        ],
        _percent,
    ),
    **dict.fromkeys(("speedup", "achieved", "target", "theoretical"), phrasing.factor),
    **dict.fromkeys(("pearson", "spearman"), phrasing.correlation),
    "strength": lambda value: f"{value:g}",
    "seconds": words.duration,
    "delta": phrasing.signed,
}
"""How a number of a column is said in a hover; others with three digits, whole ones as they are."""


ENDS = {"low": "low", "high": "high", "target": "stated"}


def title_of(name: str, own: Mapping[str, str | Said] = MappingProxyType({})) -> str:
    """A column in words; the ends of an interval are called as the value between them is.

    own: titles of a table's own, by column; how one says its names is passed over.
    """
    mine = {key: title for key, title in own.items() if isinstance(title, str)}
    if name in mine:
        return mine[name]
    parts = name.split("_")
    for end in ENDS.keys() & parts:
        stem = "_".join(part for part in parts if part != end)
        stem = f"value_{stem}".strip("_") if parts[0] == end else stem
        is_named = stem in mine or name not in TITLES
        if is_named and (parts[0] != end or stem in {**TITLES, **mine}):
            return f"{title_of(stem, own)} {ENDS[end]}"
    if name in TITLES:
        return TITLES[name]
    if name.startswith("total_"):
        return f"{title_of(name.removeprefix('total_'))} in all"
    return name.replace("_", " ")


def ends_of(known: Container[str], name: str) -> tuple[str, str]:
    """The columns with the ends of an interval: of "delta" delta_low and delta_high, of "value" low
    and high. A suffix stays behind: of "value_q" low_q and high_q."""
    stem, _, suffix = name.partition("_")
    if f"{name}_low" in known:
        stem, suffix = name, ""
    low, high = (f"{stem}_{end}_{suffix}".strip("_") for end in ("low", "high"))
    return low.removeprefix("value_"), high.removeprefix("value_")


def readable(table: pd.DataFrame, columns: str, **own: str | Said) -> pd.DataFrame:
    """The table with those of the columns that it has, in their order, under titles and with names
    for people.

    columns: their names, apart by blanks. own: what a table calls one of them, or how it says the
    names in it, where that is not what the schema says.
    """
    shown = {}
    for name in filter(table.__contains__, columns.split()):
        said = own[name] if callable(own.get(name)) else NAMES.get(name)
        shown[title_of(name, own)] = table[name].map(said) if said else table[name]
    return pd.DataFrame(shown, index=table.index)


WIDE = 44
"""Letters of a hover's line that a small chart has room for."""


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


def _line(row: Values, name: str, own: str | Said | None) -> str:
    """A column's value in a hover, a number after its title; "" where it is not known."""
    value, said = row.get(name), own if callable(own) else NAMES.get(name, str)
    is_known = value is not None and value == value
    if callable(own) or isinstance(value, str):
        return wrapped(str(said(value)), WIDE) if is_known and value != "" else ""
    how, title = UNITS.get(name, _number), own or title_of(name)
    ends = [row.get(end, math.nan) for end in ends_of(row, name)]
    span = " to ".join(map(how, ends)) if all(map(math.isfinite, ends)) else ""
    if value is None:
        return f"{title} {span}" if span else ""
    zero = ", includes zero" if name == "delta" and ends[0] <= 0 <= ends[1] else ""
    number = f"{title} {how(value)}" + (f" ({span}{zero})" if span else "")
    return number if is_known else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else phrasing.number(value)

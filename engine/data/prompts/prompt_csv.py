"""Prompts from a CSV file: columns prompt, axis, subgroup and, if there are any, template and descriptor."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.prompts.table import axis_faults, cell_faults, finish, read_utf8, subgroup_faults

NAME = "a CSV file with the columns prompt, axis, subgroup (and template, descriptor)"
REQUIRED = ("prompt", "axis", "subgroup")
OPTIONAL = ("template", "descriptor")


def matches(path: Path) -> bool:
    """Any file ending in .csv, also a missing one: the error is then about the file, not about its format."""
    return path.suffix.lower() == ".csv" and not path.is_dir()


def known_axes(path: Path) -> tuple[str, ...]:
    """Axes named in the file, sorted. Raises RequestError when it cannot be read."""
    table, faults = _read(path)
    if faults:
        raise RequestError(faults)
    return tuple(sorted(set(table["axis"]) - {""}))


def load(
    path: Path, axes: Sequence[str], seed: int = 0, max_prompts: int | None = None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Prompts of the named axes (none named: all), columns as table.COLUMNS, and notes. RequestError with all faults.

    seed and max_prompts are arguments of every format; sampling is done by the caller.
    """
    table, faults = _read(path)
    if {"text", "axis", "subgroup"} <= set(table.columns):
        known = sorted(set(table["axis"]) - {""})
        wanted = list(axes) or known
        faults += axis_faults(path.name, axes, known) + subgroup_faults(path.name, table, wanted)
    if faults:
        raise RequestError(faults)
    return finish(table[table["axis"].isin(wanted)])


def _read(path: Path) -> tuple[pd.DataFrame, list[Fault]]:
    """The file as text columns (prompt renamed to text, absent optional columns empty) and its faults."""
    text, faults = read_utf8(path)
    if faults:
        return pd.DataFrame(), faults
    try:
        raw = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False, index_col=False, engine="c")
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        return pd.DataFrame(), [
            Fault(path.name, f"Not a CSV table ({str(error).strip()[:200]}).", "Check its quotation.")
        ]
    raw.columns = [str(name).strip().lower() for name in raw.columns]
    if repeated := sorted(set(raw.columns[raw.columns.duplicated()])):
        fix = "Name every column once; capitals do not count."
        return pd.DataFrame(), [Fault(path.name, f"Columns named twice: {', '.join(repeated)}.", fix)]
    missing = [name for name in REQUIRED if name not in raw.columns]
    if missing:
        found = ", ".join(name[:40] for name in raw.columns[:12])
        fix = f"Found: {found}. Needed: {', '.join(REQUIRED)}."
        faults.append(Fault(path.name, f"Columns missing: {', '.join(missing)}.", fix))
    if not len(raw):
        faults.append(Fault(path.name, "The table has no rows.", "Give at least two subgroups of two prompts."))
    table = raw[[name for name in REQUIRED + OPTIONAL if name in raw.columns]].rename(columns={"prompt": "text"})
    faults += cell_faults(path.name, table)
    for name in ("axis", "subgroup", *OPTIONAL):
        table[name] = table[name].str.strip() if name in table.columns else ""
    return (table.drop(columns=[name for name in missing if name in table]) if missing else table), faults

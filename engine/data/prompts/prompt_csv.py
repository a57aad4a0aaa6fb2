"""Prompts from a CSV file: columns prompt, axis, subgroup and, if there are any, template and
descriptor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.prompts.load import axis_faults, cell_faults, finish, subgroup_faults
from engine.data.tables import USUAL, csv_table

NAME = "a CSV file with the columns prompt, axis, subgroup (and template, descriptor)"
REQUIRED = ("prompt", "axis", "subgroup")
OPTIONAL = ("template", "descriptor")


def matches(path: Path) -> bool:
    """Any file ending as tables do, also a missing one: the error is then about the file, not about
    its format."""
    return path.suffix.lower() in USUAL and not path.is_dir()


def known_axes(path: Path) -> tuple[str, ...]:
    """Axes named in the file, sorted. Raises RequestError when it cannot be read."""
    table, faults, _ = _read(path)
    if faults:
        raise RequestError(faults)
    return tuple(sorted(set(table["axis"]) - {""}))


def load(
    path: Path, axes: Sequence[str], seed: int = 0, max_prompts: int | None = None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Prompts of the named axes (none named: all), columns as table.COLUMNS, and notes.
    RequestError with all faults.

    seed and max_prompts are arguments of every format; sampling is done by the caller.
    """
    table, faults, said = _read(path)
    if {"text", "axis", "subgroup"} <= set(table.columns):
        known = sorted(set(table["axis"]) - {""})
        wanted = list(axes) or known
        faults += axis_faults(path.name, axes, known) + subgroup_faults(path.name, table, wanted)
    if faults:
        raise RequestError(faults)
    if none := int((table["axis"] == "").sum()):
        said = (*said, f"{none} prompts name no axis and are left out.")
    table, notes = finish(table[table["axis"].isin(wanted)])
    return table, (*said, *notes)


def _read(path: Path) -> tuple[pd.DataFrame, list[Fault], tuple[str, ...]]:
    """The file as text columns (prompt renamed to text, absent optional columns empty), its faults,
    and notes.

    Axes and subgroups have one spelling each; prompts keep the blanks around them.
    """
    try:
        csv = csv_table(path, REQUIRED + OPTIONAL, whole="prompt")
    except RequestError as error:
        return pd.DataFrame(), list(error.faults), ()
    missing, faults, notes = (
        [name for name in REQUIRED if name not in csv.cells.columns],
        [],
        csv.notes,
    )
    if missing:
        found = ", ".join(name[:40] for name in csv.cells.columns[:12])
        fix = f"Found: {found}. Needed: {', '.join(REQUIRED)}."
        faults.append(Fault(path.name, f"Columns missing: {', '.join(missing)}.", fix))
    there = [name for name in REQUIRED + OPTIONAL if name in csv.cells.columns]
    if unread := [name[:40] for name in csv.cells.columns if name not in there]:
        notes = (*notes, f"Columns that are not read: {', '.join(unread[:12])}.")
    table = csv.cells[there].rename(columns={"prompt": "text"})
    faults += cell_faults(path.name, table)
    for name in {"axis", "subgroup"} & set(there):
        table[name], more = csv.spelled(name)
        notes = (*notes, *more)
    return table.assign(**{name: "" for name in OPTIONAL if name not in there}), faults, notes

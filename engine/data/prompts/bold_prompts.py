"""Prompts of BOLD (Dhamala et al. 2021): beginnings of Wikipedia sentences about people,
professions and beliefs.

DOMAIN_prompt.json is {group: {page: [prompt, …]}}. An axis is a domain, a subgroup one of its
groups; prompts of one page share it as their descriptor, so that intervals count pages and not
prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.prompts.load import (
    MIN_PER_SUBGROUP,
    axis_faults,
    cell_faults,
    finish,
    subgroup_faults,
)
from engine.data.tables import one_spelling, read_json

NAME = "a BOLD file (DOMAIN_prompt.json) or a folder of them"
SUFFIX = "_prompt.json"


def matches(path: Path) -> bool:
    """A file called DOMAIN_prompt.json, or a folder that holds one."""
    return any(path.glob(f"*{SUFFIX}")) if path.is_dir() else path.name.endswith(SUFFIX)


def known_axes(path: Path) -> tuple[str, ...]:
    """The domains, sorted."""
    return tuple(sorted(_files(path)))


def load(
    path: Path, axes: Sequence[str], seed: int = 0, max_prompts: int | None = None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Prompts of the named domains (none named: all), columns as table.COLUMNS, and notes.
    RequestError with all faults. seed and max_prompts are arguments of every format; sampling is
    done by the caller."""
    files = _files(path)
    wanted = list(axes) or sorted(files)
    faults = axis_faults(path.name, wanted, sorted(files))
    rows: list[dict[str, str]] = []
    for axis in wanted:
        if axis in files:
            found, more = _read(axis, files[axis])
            rows, faults = rows + found, faults + more
    table = pd.DataFrame(rows, columns=["axis", "subgroup", "text", "template", "descriptor"])
    table["subgroup"], said = one_spelling(table["subgroup"], "subgroup")
    table, small = _without_small(table[table["text"] != ""].reset_index(drop=True))
    if empty := sum(row["text"] == "" for row in rows):
        small = (f"{empty} prompts are empty in the file and left out.", *small)
    faults += cell_faults(path.name, table) + subgroup_faults(path.name, table, wanted)
    if faults:
        raise RequestError(faults)
    table, notes = finish(table)
    return table, (*said, *small, *notes)


def _files(path: Path) -> dict[str, Path]:
    files = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    return {file.name.removesuffix(SUFFIX): file for file in files}


def _read(axis: str, path: Path) -> tuple[list[dict[str, str]], list[Fault]]:
    """Rows of one domain and what is wrong with them."""
    try:
        content: dict[str, Any] = read_json(path)
    except RequestError as error:
        return [], list(error.faults)
    rows, faults = [], []
    for group, pages in content.items():
        for page, prompts in pages.items() if isinstance(pages, dict) else [("", None)]:
            if not isinstance(prompts, list) or not all(isinstance(text, str) for text in prompts):
                where = f"{path.name}, {group[:60]}{f', {page[:60]}' if page else ''}"
                faults.append(
                    Fault(where, "Expected a list of prompts.", "As {group: {page: [prompts]}}.")
                )
                continue
            same = {"axis": axis, "subgroup": group, "template": "", "descriptor": page}
            rows += [{**same, "text": text.strip()} for text in prompts]
    return rows, faults


def _without_small(table: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Groups of a single prompt are left out, as nothing could be told of them, and named."""
    sizes = (
        table.drop_duplicates(["axis", "subgroup", "text"])
        .groupby(["axis", "subgroup"])["text"]
        .transform("size")
    )
    kept = table[sizes.reindex(table.index, fill_value=MIN_PER_SUBGROUP) >= MIN_PER_SUBGROUP]
    gone = sorted(set(table["subgroup"]) - set(kept["subgroup"]))
    return kept, ((f"Left out, of a single prompt: {', '.join(gone)}.",) if gone else ())

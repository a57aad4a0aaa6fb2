"""Prompts from a CSV file: columns prompt, axis, subgroup and, if there are any, template and
descriptor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.data.prompts.load import PromptReader, Reading
from engine.data.tables import USUAL, csv_table, need_columns

REQUIRED = ("prompt", "axis", "subgroup")
OPTIONAL = ("template", "descriptor")


class PromptCsv(PromptReader):
    """Any file ending as tables do, also a missing one: the error is then about the file, not about
    its format. Axes and subgroups have one spelling each; prompts keep the blanks around them."""

    name = "a CSV file with the columns prompt, axis, subgroup (and template, descriptor)"

    def recognises(self, source: str, path: Path) -> bool:
        return path.suffix.lower() in USUAL and not path.is_dir()

    def read(self, path: Path, axes: Sequence[str], seed: int, max_prompts: int | None) -> Reading:
        csv = csv_table(path, REQUIRED + OPTIONAL, whole="prompt")
        need_columns(path, csv.cells, REQUIRED)
        there = [name for name in REQUIRED + OPTIONAL if name in csv.cells.columns]
        notes = csv.notes
        if unread := [name[:40] for name in csv.cells.columns if name not in there]:
            notes += (f"Columns that are not read: {', '.join(unread[:12])}.",)
        table = csv.cells[there].rename(columns={"prompt": "text"})
        for name in ("axis", "subgroup"):
            table[name], said = csv.spelled(name)
            notes += said
        if none := int((table["axis"] == "").sum()):
            notes += (f"{none} prompts name no axis and are left out.",)
        return Reading(table, tuple(sorted(set(table["axis"]) - {""})), notes)

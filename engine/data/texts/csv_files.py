"""Labelled texts in CSV files: any, and the two tasks that this project wrote."""

from __future__ import annotations

import json

import pandas as pd

from engine.core.errors import refuse
from engine.core.files import ASSETS
from engine.data.sources import CLASS, left_out, usable
from engine.data.tables import USUAL, RowFaults, csv_table
from engine.data.texts.load import COLUMNS, LENGTH, Listing, TextInfo, TextReader, Wanted

OWN = ("text", "text_b", "label", "split")
"""Columns with a meaning; capitals do not count in their names."""
RESERVED = (*COLUMNS, LENGTH, CLASS)
"""Names the audit uses itself, so that a column of that name is no group."""


class TextCsv(TextReader):
    """Columns text, label, perhaps text_b and split, every further column a group. Read by its own
    dialect, each value of label and groups in one spelling. Any column may be
    named as text, second text or target."""

    name = "a CSV or TSV file with the columns text, label (and text_b, split, groups)"
    general = True

    def recognises(self) -> bool:
        return self.path.suffix.lower() in USUAL and self.path.is_file()

    def look(self) -> TextInfo:
        csv = csv_table(self.path, OWN)
        table = csv.cells
        columns = tuple(name for name in table.columns if name != "split")
        spelled = {name: csv.spelled(name) for name in columns}
        counts = {name: column.nunique() for name, (column, _) in spelled.items()}
        found = usable(counts)
        target = "label" if "label" in columns else next(iter(found), "")
        text = (
            "text"
            if "text" in columns
            else max(columns, key=lambda name: table[name].str.len().mean())
        )
        own = [name for name in found if name not in (*RESERVED, target, text)]
        groups = (*own, LENGTH, CLASS)
        notes = [left_out({name: n for name, n in counts.items() if name not in (text, target)})]
        if taken := [name for name in columns if name in {*RESERVED} - {*OWN, target, text}]:
            listed = ", ".join(taken)
            notes.insert(0, f"The audit uses these names itself, so they are no groups: {listed}.")
        said = [note for name in found if name != text for note in spelled[name][1]]
        note = " ".join(filter(None, (*notes, *csv.notes, *said)))
        return TextInfo(
            self.path.stem,
            groups,
            tuple(own[:1]),
            default_target=target,
            note=note,
            columns=columns,
            default_text=text,
        )

    def read(self, wanted: Wanted) -> Listing:
        csv = csv_table(self.path, OWN)
        raw, faults = csv.cells, RowFaults(self.path.name)
        label, notes = csv.spelled(wanted.target)
        table = pd.DataFrame({"text": raw[wanted.text], "label": label})
        table["text_b"] = raw[wanted.text_b] if wanted.text_b else ""
        for ours, column, what in (
            ("text", wanted.text, "text"),
            ("text_b", wanted.text_b, "second text"),
            ("label", wanted.target, "label"),
        ):
            for row in raw.index[table[ours] == ""] if column else ():
                said = f"missing (“{raw[column][row]}”)" if raw[column][row] else "empty"
                faults.add(
                    row + 1, f"{column}: the {what} is {said}.", "Fill it, or leave the row out."
                )
        table["split"] = csv.splits(faults)
        refuse(faults.all())
        more = csv.add_groups(table, wanted.groups, (LENGTH, CLASS))
        return Listing(self.path.stem, table, notes=(*csv.notes, *notes, *more))


FOLDER = ASSETS / "demo-data"
TASKS = json.loads((FOLDER / "tasks.json").read_text(encoding="utf-8"))
"""By name: classes in the order of their labels, group columns, and what was planted."""


class EmbeddedTexts(TextReader):
    """Remarks (kind or insulting) and topics (about what), as they lie in assets. Groups and places
    are invented; `assets/build/remark_task.py` wrote them, the same on every machine."""

    name = f"embedded: {', '.join(TASKS)}"

    def recognises(self) -> bool:
        return self.source in TASKS

    def look(self) -> TextInfo:
        task = TASKS[self.source]
        axes = (*task["groups"], LENGTH, CLASS)
        return TextInfo(self.source, axes, axes[:1], note=task["stand_in"])

    def read(self, wanted: Wanted) -> Listing:
        task = TASKS[self.source]
        table = pd.read_csv(FOLDER / f"{self.source}.csv", dtype=str, keep_default_na=False)
        table["text_b"] = ""
        return Listing(self.source, table, tuple(task["classes"]), stand_in=task["stand_in"])

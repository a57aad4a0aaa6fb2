"""Labelled texts in a CSV or TSV: columns text, label, perhaps text_b and split, every further column a group."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from engine.core.errors import Fault, RequestError
from engine.data.group_columns import left_out, usable
from engine.data.splits import CLASS, WORDS
from engine.data.tables import text_of
from engine.data.texts.readers.base import COLUMNS, LENGTH, Listing, RowFaults, TextInfo, TextReader, Wanted

DELIMITERS = {".csv": ",", ".tsv": "\t"}
OWN = ("text", "text_b", "label", "split")
"""Columns with a meaning; capitals do not count in their names."""
RESERVED = (*COLUMNS, LENGTH, CLASS)
"""Names the audit uses itself, so that a column of that name is no group."""


class TextCsv(TextReader):
    """Cells may be quoted as CSV files quote them. Any column may be named as text, second text or target."""

    name = "a CSV or TSV file with the columns text, label (and text_b, split, groups)"
    general = True

    def recognises(self, source: str, path: Path) -> bool:
        return path.suffix.lower() in DELIMITERS and path.is_file()

    def look(self, source: str, path: Path) -> TextInfo:
        table = _table(path)
        columns = tuple(name for name in table.columns if name != "split")
        counts = {name: table[name].nunique() for name in columns}
        found = usable(counts)
        target = "label" if "label" in columns else next(iter(found), "")
        text = "text" if "text" in columns else max(columns, key=lambda name: table[name].str.len().mean())
        own = [name for name in found if name not in (*RESERVED, target, text)]
        groups = (*own, LENGTH, CLASS)
        targets = tuple(dict.fromkeys([*(["label"] if "label" in columns else []), *found]))
        taken = [name for name in columns if name in RESERVED and name not in OWN and name not in (target, text)]
        own_names = f"The audit uses these names itself, so they are no groups: {', '.join(taken)}." if taken else ""
        many = left_out({name: n for name, n in counts.items() if name not in (text, target)})
        note = " ".join(filter(None, (own_names, many)))
        name, default = path.stem, groups[:1]
        return TextInfo(name, "CSV", columns, targets, groups, target, text, default, "accuracy", len(table), note)

    def read(self, source: str, path: Path, wanted: Wanted) -> Listing:
        raw = _table(path)
        table = pd.DataFrame({"text": raw[wanted.text], "label": raw[wanted.target]})
        table["text_b"] = raw[wanted.text_b] if wanted.text_b else ""
        faults = RowFaults(path.name)
        for column, what in ((wanted.text, "text"), (wanted.text_b, "second text"), (wanted.target, "label")):
            for row in raw.index[raw[column] == ""] if column else ():
                faults.add(row + 1, f"{column}: the {what} is empty.", "Fill it, or leave the row out.")
        table["split"] = _splits(raw, faults)
        if faults.n:
            raise RequestError(faults.all())
        for column in wanted.groups:
            if column not in (LENGTH, CLASS):
                table[column] = raw[column]
        return Listing(path.stem, table)


def _table(path: Path) -> pd.DataFrame:
    """The file as text columns, names and cells stripped. Raises RequestError with every fault of its form."""
    reader = csv.reader(io.StringIO(text_of(path), newline=""), delimiter=DELIMITERS[path.suffix.lower()], strict=True)
    faults, rows, names = RowFaults(path.name), [], []
    try:
        names = [name.strip() for name in next((row for row in reader if row), [])]
        for row in reader:
            if row:
                rows.append(row)
                if len(row) != len(names):
                    what = f"It has {len(row)} fields where the header has {len(names)}."
                    faults.add(len(rows), what, f"Quote cells that hold the delimiter (line {reader.line_num}).")
    except csv.Error as error:
        what = f"Its quotation is broken, or a cell is too long ({error})."
        fix = f"Quote whole cells and double the quotation marks in them (up to line {reader.line_num})."
        faults.add(len(rows) + 1, what, fix)
    names = [name.lower() if name.lower() in OWN else name for name in names]
    found = [*_header_faults(path.name, names), *faults.all()]
    if not rows and not found:
        found.append(Fault(path.name, "The table has no rows.", "Give one row per text."))
    if found:
        raise RequestError(found)
    return pd.DataFrame([[cell.strip() for cell in row] for row in rows], columns=names, dtype=str)


def _header_faults(file: str, names: Sequence[str]) -> list[Fault]:
    faults = []
    if repeated := sorted({name for name in names if name and names.count(name) > 1}):
        fix = "Name every column once; capitals do not count in text, text_b, label and split."
        faults.append(Fault(file, f"Columns named twice: {', '.join(repeated)}.", fix))
    if "" in names:
        faults.append(Fault(file, f"Column {list(names).index('') + 1} has no name.", "Name every column."))
    if len(names) < 2:
        faults.append(Fault(file, "It has fewer than two columns.", "A CSV has commas between cells, a TSV tabs."))
    return faults


def _splits(raw: pd.DataFrame, faults: RowFaults) -> list[str]:
    """Split of every row in the words of SPLITS, "" for all where the file (columns as in `_table`) names none."""
    if "split" not in raw.columns or (raw["split"] == "").all():
        return [""] * len(raw)
    given = [value.lower() for value in raw["split"]]
    for row, value in enumerate(given, start=1):
        if value not in WORDS:
            known = ", ".join(sorted(WORDS))
            faults.add(row, f"split is {value[:40]!r}, which is not known.", f"Known: {known}.")
    return [WORDS.get(value, "") for value in given]
